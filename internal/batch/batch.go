package batch

import (
	"context"
	"slices"

	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
)

// batch are the callers that wait for the next round trip, to a node or to a store that is set aside. It is the Queue of
// these round trips. The Batcher's mutex guards it.
type batch[T any] struct {
	batcher *Batcher[T]
	trips   *Coalescer
	latest  *store.Store // that a caller came for
	queue   []*caller[T]
	ids     map[string]bool
	isAside bool
	tries   *redisconn.Tries // paces the round trips to a store that is set aside, once one was refused; else nil
}

func newBatch[T any](b *Batcher[T], roundTrips int) *batch[T] {
	n := &batch[T]{batcher: b, ids: map[string]bool{}}
	n.trips = New(b.owner, n.connect, &b.mu, n, roundTrips)
	return n
}

func (n *batch[T]) connect(ctx context.Context) (*store.Pipeline, error) {
	n.batcher.mu.Lock()
	s, tries := n.latest, n.tries
	n.batcher.mu.Unlock()
	if tries != nil && !tries.Wait(ctx) {
		return nil, ctx.Err()
	}
	return s.Pipeline(ctx)
}

func (n *batch[T]) leave(c *caller[T]) {
	if i := slices.Index(n.queue, c); i >= 0 {
		n.queue = slices.Delete(n.queue, i, i+1)
	}
	c.batch = nil
}

// putBack has callers be the next ones again, but for those that have left.
func (n *batch[T]) putBack(callers []*caller[T]) {
	n.batcher.mu.Lock()
	defer n.batcher.mu.Unlock()
	callers = slices.DeleteFunc(callers, func(c *caller[T]) bool { return c.batch == nil })
	n.queue = slices.Insert(n.queue, 0, callers...)
	n.trips.Wake()
}

func (n *batch[T]) isInUse() bool { return n.trips.underWay > 0 || n.Waiting() }

// Waiting is that of a Queue, as is Next.
func (n *batch[T]) Waiting() bool { return len(n.queue) > 0 }

// Next dequeues the next callers whose items may go together.
func (n *batch[T]) Next() (int, func(*store.Pipeline, error)) {
	if len(n.queue) == 0 {
		return 0, nil
	}
	t := n.batcher.trips.Get().(*trip[T])
	t.batch = n
	for _, c := range n.queue[:min(len(n.queue), maxItems)] {
		t.items = append(t.items, c.item)
	}
	many := n.batcher.kind.fit(t.items, n.ids)
	clear(t.items[many:])
	t.items = t.items[:many]
	t.callers = append(t.callers, n.queue[:many]...)
	n.queue = slices.Delete(n.queue, 0, many)
	return many, t.make
}
