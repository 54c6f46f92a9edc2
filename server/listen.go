package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
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

// listen wakes the movers, until ctx is done, for jobs that are pushed and fall due before all others of their partition.
// Announcements made without a connection are lost, so each new connection starts with a poll, and without one the movers
// poll more often.
func (n *node) listen(ctx context.Context) {
	refusal := newOutages(n.log)
	var pause redisconn.Backoff
	for ctx.Err() == nil {
		began := time.Now()
		n.subscribe(ctx, refusal)
		if time.Since(began) > lastPause {
			pause = 0
		} else {
			pause.Wait(ctx, firstPause, lastPause)
		}
	}
}

// subscribe listens on one connection until it breaks or ctx is done.
func (n *node) subscribe(ctx context.Context, refusal *outages) {
	deaf := fmt.Sprintf("Cannot subscribe to %s, jobs may be up to %v late", n.channel(store.Keys.FirstDue), duration.Format(n.polledInterval()))
	movers := n.here()
	if len(movers) == 0 {
		return // all have moved to other nodes
	}
	silent := silence
	if len(movers) > 1 {
		silent = shortSilence
	}
	sub, err := movers[0].store.Subscribe(ctx, silent)
	if err != nil {
		return // passes report it
	}
	defer sub.Close()
	defer context.AfterFunc(ctx, func() { sub.Close() })()
	defer n.missAll()
	if n.listenOn(sub) != nil {
		return
	}
	for {
		event, err := sub.Receive()
		if err != nil {
			return
		}
		m := n.moverOf(event.Channel)
		switch {
		case m == nil: // it has moved to another node
		case event.Refused != nil:
			n.missPushes(m)
			refusal.report(deaf, n.advise(event.Refused, "+subscribe"))
			time.AfterFunc(cmp.Or(n.test.askAgain, askAgain), func() { sub.Add(event.Channel) })
		case event.Subscribed:
			m.missesPushes.Store(false)
			if !n.missesAny() {
				refusal.report(deaf, nil)
			}
			m.passBy(time.Now())
		default:
			m.passBy(time.Now().Add(dueIn(event.Data)))
		}
	}
}

// listenOn subscribes to the channels of the movers, also of those that join later.
func (n *node) listenOn(sub *store.Subscription) error {
	n.mu.Lock()
	n.listener = sub
	var channels []string
	for _, m := range n.movers {
		channels = append(channels, m.firstDue)
	}
	n.mu.Unlock()
	return sub.Add(channels...)
}

func (n *node) moverOf(channel string) *mover {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.movers {
		if m.firstDue == channel {
			return m
		}
	}
	return nil
}

// missPushes makes the mover poll more often, starting with the current sleep.
func (n *node) missPushes(m *mover) {
	if !m.missesPushes.Swap(true) {
		m.passBy(time.Now().Add(n.polledInterval()))
	}
}

func (n *node) missAll() {
	for _, m := range n.here() {
		n.missPushes(m)
	}
}

func (n *node) missesAny() bool {
	return slices.ContainsFunc(n.here(), func(m *mover) bool { return m.missesPushes.Load() })
}

// channel names the channel of all partitions, for log lines.
func (s *Server) channel(of func(store.Keys) string) string {
	if len(s.movers) > 1 {
		return of(store.New(nil, s.options.Prefix+"{*}:").Keys())
	}
	return of(s.movers[0].store.Keys())
}

// reportPublish logs whether waiters could be woken.
func (m *mover) reportPublish(why error) {
	if why != nil {
		why = m.advise(why, "+zpopmin +publish")
	}
	wake := m.channel(func(k store.Keys) string { return k.Wake("*") })
	m.outages.report(fmt.Sprintf("Cannot publish to %s, waiting consumers may get jobs late", wake), why)
}

// listenAnew makes the listener reconnect: its connection may lead to a server that no client publishes to any more.
func (m *mover) listenAnew() {
	n := m.node.Load()
	if n == nil {
		return
	}
	n.mu.Lock()
	sub := n.listener
	n.mu.Unlock()
	if sub != nil {
		sub.Close()
	}
}

// dueIn reads an announcement: the milliseconds until the next job falls due. Anything else counts as 0, since a needless
// poll does no harm.
func dueIn(message []byte) time.Duration {
	d, _ := time.ParseDuration(string(message) + "ms")
	return max(d, 0)
}
