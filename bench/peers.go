package main

import (
	"context"
	"slices"
	"time"
)

// Peer is a queue with delays.
type Peer interface {
	// Round returns the due time that Push will use for that time; a Peer with a resolution of seconds rounds
	// up.
	Round(now, due time.Time) time.Time
	// Push stores job n. It is safe for concurrent use.
	Push(ctx context.Context, n int64, body string, due time.Time) error
	// Consume starts the server side and that many workers, which call got for each job until ctx is done.
	Consume(ctx context.Context, workers int, got func(body string)) error
	// Close closes the Peer's connections, after Consume's ctx has ended.
	Close() error
}

// holder is a Peer whose delays start with the push: for a burst it must hold what falls due before that
// time.
type holder interface {
	Hold(until time.Time) error
}

// nextSecond returns the first whole second at or after t.
func nextSecond(t time.Time) time.Time {
	whole := t.Truncate(time.Second)
	if whole.Before(t) {
		whole = whole.Add(time.Second)
	}
	return whole
}

// maker creates a Peer on empty servers.
type maker struct {
	name string
	ours bool // ours, partly ours, or the floor
	// slow peers run fewer repeats and no burst of 1,000,000.
	slow bool
	open func(*Run) (Peer, error)
}

// allPeers are all contenders, ours first.
var allPeers = []maker{
	{"Delayer", true, false, func(r *Run) (Peer, error) { return newDelayer(r.Redis, 0), nil }},
	{"Delayer, PopBatch", true, false, func(r *Run) (Peer, error) { return newDelayer(r.Redis, takeChunk), nil }},
	{"floor: raw scripts", true, false, func(r *Run) (Peer, error) { return &floorPeer{redis: r.Redis}, nil }},
	{"original's clients, Delayer's server", true, false, func(r *Run) (Peer, error) { return newOriginal(r.Redis), nil }},
	{"beanstalkd", false, false, func(r *Run) (Peer, error) { return newBeanstalkd(r) }},
	{"Faktory", false, false, func(*Run) (Peer, error) { return newFaktory() }},
	{"asynq", false, false, func(r *Run) (Peer, error) { return newAsynq(r.Redis), nil }},
	{"gocraft/work", false, false, func(r *Run) (Peer, error) { return newGocraft(r.Redis), nil }},
	{"machinery", false, true, func(r *Run) (Peer, error) { return newMachinery(r.Redis) }},
}

// on opens a Peer and calls f with it; ctx ends with f.
func on(ctx context.Context, open func() (Peer, error), f func(ctx context.Context, p Peer) ([]float64, error)) ([]float64, error) {
	p, err := open()
	if err != nil {
		return nil, err
	}
	defer p.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return f(ctx, p)
}

// onEmpty is on with an empty Redis.
func (r *Run) onEmpty(ctx context.Context, open func() (Peer, error), f func(ctx context.Context, p Peer) ([]float64, error)) ([]float64, error) {
	if err := r.Redis.clear(); err != nil {
		return nil, err
	}
	return on(ctx, open, f)
}

// opener returns a function that opens m's Peer.
func (r *Run) opener(m maker) func() (Peer, error) { return func() (Peer, error) { return m.open(r) } }

func oursAnew(r *Run) func() (Peer, error) {
	return func() (Peer, error) { return newDelayer(r.Redis, 0), nil }
}

// peers returns the contenders for which this run has time.
func (r *Run) peers() []maker {
	var list []maker
	for _, m := range allPeers {
		if !m.slow || r.slowPeers {
			list = append(list, m)
		}
	}
	return list
}

// others returns peers() without ours and the floor.
func (r *Run) others() []maker {
	return slices.DeleteFunc(r.peers(), func(m maker) bool { return m.ours })
}
