package server

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/redisconn"
)

const (
	// firstPause and lastPause bound the wait for the next connection after a short-lived one. After one that lasted there
	// is no wait.
	firstPause, lastPause = 10 * time.Millisecond, time.Second
	// silence is how long a connection may be silent before it is checked.
	silence = 5 * time.Second
	// shortSilence is the same for several movers, which poll rarely while the connection lives.
	shortSilence = time.Second
	// askAgain is how long to wait after Redis has refused a channel.
	askAgain = 10 * time.Second
)

// listen wakes the movers, until the stop, for jobs that are pushed and fall due before all others of their store.
// Announcements made without a connection are lost, so each new connection starts with a poll, and without one the movers
// poll more often.
func (l *loop) listen() {
	var pause redisconn.Backoff
	for l.ctx.Err() == nil {
		began := time.Now()
		l.subscribe()
		if time.Since(began) > lastPause {
			pause = 0
		} else {
			pause.Wait(l.ctx, firstPause, lastPause)
		}
	}
}

// subscribe listens on one connection until it breaks, or until the stop.
func (l *loop) subscribe() {
	deaf := fmt.Sprintf("Cannot subscribe to %s, jobs may be up to %v late", l.server.fleet.Pattern().FirstDue(), duration.Format(l.server.polledInterval()))
	silent := silence
	if len(l.server.movers) > 1 {
		silent = shortSilence
	}
	of := map[string]*mover{} // by channel
	for _, m := range l.movers {
		of[m.firstDue] = m
	}
	sub, err := l.movers[0].store.Subscribe(l.ctx, silent, slices.Sorted(maps.Keys(of))...)
	if err != nil {
		return // passes report it
	}
	defer sub.Close()
	defer context.AfterFunc(l.ctx, func() { sub.Close() })()
	defer l.missPushes(l.movers...)
	l.mu.Lock()
	l.listener = sub
	l.mu.Unlock()
	for {
		event, err := sub.Receive()
		if err != nil {
			return
		}
		m := of[event.Channel]
		switch {
		case m == nil: // which Redis never sends
		case event.Refused != nil:
			l.missPushes(m)
			l.server.outages.reportOf(m.number, deaf, l.server.advise(event.Refused, "+subscribe"))
			time.AfterFunc(cmp.Or(l.server.test.askAgain, askAgain), func() { sub.Add(event.Channel) })
		case event.Subscribed:
			m.missesPushes.Store(false)
			l.server.outages.reportOf(m.number, deaf, nil)
			m.passBy(time.Now())
		default:
			m.passBy(time.Now().Add(dueIn(event.Data)))
		}
	}
}

// missPushes makes the movers poll more often, starting with the current sleep.
func (l *loop) missPushes(movers ...*mover) {
	for _, m := range movers {
		if !m.missesPushes.Swap(true) {
			m.passBy(time.Now().Add(l.server.polledInterval()))
		}
	}
}

// reportPublish logs whether waiters could be woken.
func (m *mover) reportPublish(why error) {
	if why != nil {
		why = m.server.advise(why, "+zpopmin +publish")
	}
	m.outages.report(fmt.Sprintf("Cannot publish to %s, waiting consumers may get jobs late", m.server.fleet.Pattern().Wake("*")), why)
}

// listenAnew makes the listener reconnect: its connection may lead to a server that no client publishes to any more.
func (m *mover) listenAnew() {
	l := m.loop.Load()
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener != nil {
		l.listener.Close()
	}
}

// dueIn reads an announcement: the milliseconds until the next job falls due. Anything else counts as 0, since a needless
// poll does no harm.
func dueIn(message []byte) time.Duration {
	d, _ := time.ParseDuration(string(message) + "ms")
	return max(d, 0)
}
