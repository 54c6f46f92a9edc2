package batch

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
)

// Batcher has items done, each for a caller of its own, in round trips that they share: those of stores that the
// same connections lead to go together. Each caller gets exactly its own error.
//
// A store whose node does not do its calls now, as a slot of a cluster is on its way, is set aside: its callers are tried
// again in round trips of their own until they are served, and nobody else waits for it.
type Batcher[T any] struct {
	owner *Owner
	kind  Kind[T]
	mu    sync.Mutex
	nodes map[*redisconn.Node]*batch[T]
	aside map[*store.Store]*batch[T] // those of the stores that are set aside

	callers, trips sync.Pool // that are not in use
}

// caller is one who waits for an answer.
type caller[T any] struct {
	store  *store.Store
	item   T
	answer chan error // holds one
	batch  *batch[T]  // whose queue it is in, or was in last; nil once it has left
	until  time.Time  // a refusal is its answer from then on; zero as long as there was none
	order  int        // that of its store among those of a round trip
}

// RoundTrips is how many of a kind are under way to a node at a time. With more, few callers would share
// less; with one, a caller just behind a round trip would wait for two.
const RoundTrips = 2

// NewBatcher makes a Batcher of calls of that kind.
func NewBatcher[T any](o *Owner, k Kind[T]) *Batcher[T] {
	return &Batcher[T]{
		owner: o, kind: k,
		nodes: map[*redisconn.Node]*batch[T]{}, aside: map[*store.Store]*batch[T]{},
		callers: sync.Pool{New: func() any { return &caller[T]{answer: make(chan error, 1)} }},
		trips:   sync.Pool{New: func() any { return new(trip[T]) }},
	}
}

// of is the batch that the store's callers join. Those of nodes that nobody asks any more are forgotten.
func (b *Batcher[T]) of(s *store.Store) *batch[T] {
	if n := b.aside[s]; n != nil {
		if n.isInUse() {
			return n
		}
		delete(b.aside, s)
	}
	node := s.Node()
	n := b.nodes[node]
	if n == nil {
		maps.DeleteFunc(b.nodes, func(_ *redisconn.Node, n *batch[T]) bool { return !n.isInUse() })
		n = newBatch(b, RoundTrips)
		b.nodes[node] = n
	}
	n.latest = s
	return n
}

// Do returns once the item is done at the store, or with ctx's error when that ends before: an item not yet
// sent is not done then. While few calls are under way, a caller whose ctx has no deadline makes the call itself, and
// then waits for the answer whatever becomes of ctx.
func (b *Batcher[T]) Do(ctx context.Context, s *store.Store, item T) error {
	_, hurries := ctx.Deadline()
	b.mu.Lock()
	n := b.of(s)
	if !hurries && !n.isAside && n.trips.underWay < n.trips.most {
		n.trips.underWay++
		b.mu.Unlock()
		err, refused := b.alone(ctx, n, s, item)
		if !refused {
			return err
		}
		c := b.caller(n, s, item)
		n.setAside([]*caller[T]{c}, err)
		return b.wait(ctx, c)
	}
	c := b.caller(n, s, item)
	n.queue = append(n.queue, c)
	n.trips.Wake()
	b.mu.Unlock()
	return b.wait(ctx, c)
}

// alone makes a call for one caller in its own goroutine, which is a fifth faster than in another. refused reports that a node of a
// cluster has not done it, as err says, and may later.
func (b *Batcher[T]) alone(ctx context.Context, n *batch[T], s *store.Store, item T) (err error, refused bool) {
	if ctx.Done() == nil {
		ctx = b.owner.Abandoned
	}
	p, err := s.Pipeline(ctx)
	switch {
	case err == nil:
		p.Direct = true
		items := []T{item}
		call := b.kind.Call(s, items).Send(p)
		errs, failed := call.Wait(context.Background())
		if err = failed; err == nil {
			err = errs[0]
		} else {
			refused = call.IsElsewhere()
		}
		if b.kind.Behind != nil && !refused {
			errs = []error{err}
			b.kind.Behind(context.Background(), p, items, errs)
			err = errs[0]
		}
		p.Close()
	case ctx == b.owner.Abandoned && ctx.Err() != nil:
		err = b.owner.Closed
	case ctx.Err() != nil:
		err = ctx.Err()
	default:
		err = notSent{err}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	n.trips.underWay--
	if len(n.queue) > 0 {
		n.trips.Wake()
	}
	return err, refused
}

// caller is one who waits in the batch.
func (b *Batcher[T]) caller(n *batch[T], s *store.Store, item T) *caller[T] {
	c := b.callers.Get().(*caller[T])
	c.store, c.item, c.batch = s, item, n
	return c
}

// wait waits for the caller's answer, or for the end of ctx.
func (b *Batcher[T]) wait(ctx context.Context, c *caller[T]) error {
	select {
	case err := <-c.answer:
		*c = caller[T]{answer: c.answer} // for another one
		b.callers.Put(c)
		return err
	case <-ctx.Done():
		b.leave(c)
		return ctx.Err()
	}
}

// leave takes the caller out of the queue, if its item is not yet on its way.
func (b *Batcher[T]) leave(c *caller[T]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.batch.leave(c)
}

// Counts returns how many round trips are under way to the store's node, and how many calls wait for the next.
func (b *Batcher[T]) Counts(s *store.Store) (underWay, waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.of(s)
	return n.trips.underWay, len(n.queue)
}
