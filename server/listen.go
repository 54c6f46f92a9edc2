package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

const (
	// firstPause and lastPause bound the time before the next connection
	// after one that did not last; after one that did there is none.
	firstPause, lastPause = 10 * time.Millisecond, time.Second
	// silence is after how long without a message we ask whether the connection is alive.
	silence = 5 * time.Second
	// shortSilence is the same where several movers rely on it: they poll seldom as long as it is alive.
	shortSilence = time.Second
	// askAgain is how long to wait after Redis has refused the channel.
	askAgain = 10 * time.Second
)

// listen tells the movers, until ctx is done, when a job was pushed that falls due
// before all others of its partition. What was published while there was no connection is lost: each
// new one asks for a look at once, and as long as there is none, these are more frequent.
func (n *node) listen(ctx context.Context) {
	refusal := newOutages(n.log)
	for pause := time.Duration(0); ctx.Err() == nil; {
		began := time.Now()
		n.subscribe(ctx, refusal)
		if time.Since(began) > lastPause {
			pause = 0
			continue
		}
		pause = min(max(2*pause, firstPause), lastPause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// subscribe listens on one connection until it breaks or ctx is done.
func (n *node) subscribe(ctx context.Context, refusal *outages) {
	deaf := fmt.Sprintf("Nothing can be heard on %s, jobs may come late by up to %v", n.channel(store.Keys.FirstDue), n.polledInterval())
	movers := n.here()
	if len(movers) == 0 {
		return // they have gone to other nodes
	}
	silent := silence
	if len(movers) > 1 {
		silent = shortSilence
	}
	sub, err := movers[0].store.Subscribe(ctx, silent)
	if err != nil {
		return // the passes will say so
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
		case m == nil: // it has gone to another node
		case event.Refused != nil:
			n.missPushes(m)
			refusal.report(deaf, n.advise(event.Refused, "+subscribe"))
			time.AfterFunc(cmp.Or(n.test.askAgain, askAgain), func() { sub.Add(event.Channel) })
		case event.Subscribed:
			m.missesPushes.Store(false)
			if !n.missesAny() {
				refusal.report(deaf, nil)
			}
			m.tickBy(time.Now())
		default:
			m.dueBy(time.Now().Add(dueIn(event.Data)))
		}
	}
}

// listenOn asks for the channels of the movers, and of those that come.
func (n *node) listenOn(sub *store.Subscription) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listener = sub
	var channels []string
	for _, m := range n.movers {
		channels = append(channels, m.store.Keys().FirstDue())
	}
	return sub.Add(channels...)
}

// moverOf is the one with that channel.
func (n *node) moverOf(channel string) *mover {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.movers {
		if m.store.Keys().FirstDue() == channel {
			return m
		}
	}
	return nil
}

// missPushes has the pool looked at more often, which begins with the sleep under way.
func (n *node) missPushes(m *mover) {
	if !m.missesPushes.Swap(true) {
		m.tickBy(time.Now().Add(n.polledInterval()))
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

// channel names a channel that each partition has.
func (s *Server) channel(of func(store.Keys) string) string {
	if len(s.movers) > 1 {
		return of(store.New(nil, s.options.Prefix+"{*}:").Keys())
	}
	return of(s.movers[0].store.Keys())
}

// reportPublish tells the log whether waiters could be woken.
func (m *mover) reportPublish(why error) {
	if why != nil {
		why = m.advise(why, "+zpopmin +publish")
	}
	wake := m.channel(func(k store.Keys) string { return k.Wake("*") })
	m.outages.report(fmt.Sprintf("Nothing can be said on %s, waiting consumers may get jobs late", wake), why)
}

// listenAnew makes the listener open another connection: the one that it has
// may lead to a server to which nothing is published any more.
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

// dueIn reads a message of the channel: in how many ms the next job falls due.
// Somebody else's words are 0: to look does no harm.
func dueIn(message []byte) time.Duration {
	d, _ := time.ParseDuration(string(message) + "ms")
	return max(d, 0)
}
