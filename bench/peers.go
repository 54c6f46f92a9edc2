package main

import (
	"context"
	"io"
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
	Consume(ctx context.Context, workers int, got func(body string))
	// Close closes the Peer's connections, after Consume's ctx has ended.
	Close()
}

// holder is a Peer whose delays start with the push: for a burst it must hold what falls due before that
// time.
type holder interface{ Hold(until time.Time) }

// ownServer is a Peer with its own server.
type ownServer interface {
	cpu() time.Duration
	memory() float64
}

// serverCPU returns the CPU time of the Peer's server.
func (r *Run) serverCPU(p Peer) time.Duration {
	if own, ok := p.(ownServer); ok {
		return own.cpu()
	}
	return r.Redis.cpu()
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
	open func(*Run) Peer
}

// allPeers are all contenders, ours first.
var allPeers = []maker{
	{"Delayer", true, (*Run).ours},
	{"Delayer, Fetch", true, func(r *Run) Peer { return newDelayer(r.Redis, takeChunk) }},
	{"floor: raw scripts", true, func(r *Run) Peer { return &floorPeer{redis: r.Redis} }},
	{ofOriginal, true, func(r *Run) Peer { return newOriginal(r.Redis) }},
	{"beanstalkd", false, func(*Run) Peer { return newBeanstalkd() }},
	{"Faktory", false, func(*Run) Peer { return newFaktory() }},
	{"asynq", false, func(r *Run) Peer { return newAsynq(r.Redis) }},
}

const ofOriginal = "original's clients, Delayer's server"

// others returns the contenders without ours and the floor.
func others() []maker {
	return slices.DeleteFunc(slices.Clone(allPeers), func(m maker) bool { return m.ours })
}

// on calls f with a Peer and closes it; ctx ends with f.
func on(ctx context.Context, p Peer, f func(ctx context.Context, p Peer) []float64) []float64 {
	defer p.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return f(ctx, p)
}

// alone is a contender that measures a Peer on an empty Redis.
func (r *Run) alone(ctx context.Context, name string, open func(*Run) Peer, f func(ctx context.Context, p Peer) []float64) contender {
	return contender{name: name, run: func() []float64 {
		r.Redis.clear()
		return on(ctx, open(r), f)
	}}
}

func (r *Run) ours() Peer { return newDelayer(r.Redis, 0) }

// conns are connections that goroutines share.
type conns[T io.Closer] chan T

// newConns opens as many connections as Delayer's client does by default.
func newConns[T io.Closer](open func() T) conns[T] {
	cs := make(conns[T], 32)
	for range cap(cs) {
		cs <- open()
	}
	return cs
}

// use calls f with a connection of its own.
func (cs conns[T]) use(f func(c T) error) error {
	c := <-cs
	defer func() { cs <- c }()
	return f(c)
}

func (cs conns[T]) Close() {
	for range cap(cs) {
		(<-cs).Close()
	}
}
