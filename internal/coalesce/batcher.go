package coalesce

import (
	"context"
	"maps"
	"sync"
	"time"

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
	nodes map[any]*batch[T]          // by the stores' Node
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
		nodes: map[any]*batch[T]{}, aside: map[*store.Store]*batch[T]{},
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
		maps.DeleteFunc(b.nodes, func(_ any, n *batch[T]) bool { return !n.isInUse() })
		n = newBatch(b, RoundTrips)
		b.nodes[node] = n
	}
	n.latest = s
	return n
}

// Do returns once the item is done at the store, or with ctx's error when that ends before: an item not yet
// sent is not done then. A caller whose ctx has no deadline may make the round trip itself, and
// then waits for the answer whatever becomes of ctx.
func (b *Batcher[T]) Do(ctx context.Context, s *store.Store, item T) error {
	c := b.callers.Get().(*caller[T])
	c.store, c.item = s, item
	_, hurries := ctx.Deadline()
	b.mu.Lock()
	n := b.of(s)
	n.join(c)
	leads := !hurries && n.trips.TryLead()
	if !leads {
		n.trips.Wake()
	}
	b.mu.Unlock()
	if leads {
		if ctx.Done() == nil {
			ctx = b.owner.Abandoned
		}
		n.trips.Lead(ctx)
		select {
		case err := <-c.answer: // even if ctx is done, too
			return b.dismiss(c, err)
		default:
		}
	}
	select {
	case err := <-c.answer:
		return b.dismiss(c, err)
	case <-ctx.Done():
		b.leave(c)
		if ctx == b.owner.Abandoned {
			return b.owner.Closed
		}
		return ctx.Err()
	}
}

// dismiss returns the caller's answer. It may be used for another one then.
func (b *Batcher[T]) dismiss(c *caller[T], err error) error {
	*c = caller[T]{answer: c.answer}
	b.callers.Put(c)
	return err
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
