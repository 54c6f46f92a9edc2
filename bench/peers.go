package main

import (
	"context"
	"slices"
	"time"
)

// Peer is a queue with delays, as a workload sees it.
type Peer interface {
	// Round is the due time that Push will give a job which should fall due
	// then; a Peer that knows whole seconds only rounds up.
	Round(now, due time.Time) time.Time
	// Push stores job n. It is safe for concurrent use.
	Push(ctx context.Context, n int64, body string, due time.Time) error
	// Consume starts what makes jobs ready and so many workers, which call got
	// for each job, until ctx is done.
	Consume(ctx context.Context, workers int, got func(body string)) error
	// Close ends the Peer's connections. It comes after the end of Consume's ctx.
	Close() error
}

// holder is a Peer whose delays begin with the push: for a burst it must hold
// back what falls due before that time.
type holder interface {
	Hold(until time.Time) error
}

// nextSecond is the first whole second at or after t.
func nextSecond(t time.Time) time.Time {
	whole := t.Truncate(time.Second)
	if whole.Before(t) {
		whole = whole.Add(time.Second)
	}
	return whole
}

// maker makes a Peer anew, on empty servers.
type maker struct {
	name string
	ours bool // or ours in part, or the floor
	// slow peers run fewer repeats, and no burst of 1,000,000.
	slow bool
	open func(*Run) (Peer, error)
}

// allPeers are all that are compared, ours first.
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

// on opens a Peer for f, whose ctx ends with f.
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

// opener opens m's Peer.
func (r *Run) opener(m maker) func() (Peer, error) { return func() (Peer, error) { return m.open(r) } }

func oursAnew(r *Run) func() (Peer, error) {
	return func() (Peer, error) { return newDelayer(r.Redis, 0), nil }
}

// peers are the makers that this run has time for.
func (r *Run) peers() []maker {
	var list []maker
	for _, m := range allPeers {
		if !m.slow || r.slowPeers {
			list = append(list, m)
		}
	}
	return list
}

// others are peers() without ours and without the floor.
func (r *Run) others() []maker {
	return slices.DeleteFunc(r.peers(), func(m maker) bool { return m.ours })
}
