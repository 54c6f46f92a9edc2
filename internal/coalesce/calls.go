package coalesce

import (
	"context"
	"slices"
	"sync"

	"github.com/mix-basic/delayer/internal/store"
)

// Calls are calls that each have one item done and share round trips. Each caller gets exactly
// its own error.
type Calls[T any] struct {
	trips  *Coalescer
	mu     sync.Mutex
	queued []*call[T]
	chunk  *chunk[T]
	// do has the items done, and returns an error for each.
	do func(p *store.Pipeline, items []T) ([]error, error)
}

type call[T any] struct {
	item T
	done chan error // holds one
	gone bool       // its caller left; guarded by Calls.mu
}

// NewCalls makes Calls of at most so many round trips at a time.
func NewCalls[T any](o *Owner, s *store.Store, most int, bounds Bounds[T], do func(*store.Pipeline, []T) ([]error, error)) *Calls[T] {
	c := &Calls[T]{chunk: bounds.chunk(), do: do}
	c.trips = New(o, s, &c.mu, queue[T]{c}, most)
	return c
}

// Call returns once the item is done, or with ctx's error when that ends before: an item not yet
// sent is not done then. A caller whose ctx has no deadline may make the round trip itself, and
// then waits for the answer whatever becomes of ctx.
func (c *Calls[T]) Call(ctx context.Context, item T) error {
	mine := &call[T]{item: item, done: make(chan error, 1)}
	c.mu.Lock()
	c.queued = append(c.queued, mine)
	_, hurries := ctx.Deadline()
	leads := !hurries && c.trips.MayLead()
	if !leads {
		c.trips.Wake()
	}
	c.mu.Unlock()
	abandoned := c.trips.owner.Abandoned
	if leads {
		if ctx.Done() == nil {
			ctx = abandoned
		}
		c.trips.Lead(ctx)
		select {
		case err := <-mine.done: // even if ctx is done, too
			return err
		default:
		}
	}
	select {
	case err := <-mine.done:
		return err
	case <-ctx.Done():
		c.mu.Lock()
		mine.gone = true
		c.mu.Unlock()
		if ctx == abandoned {
			return c.trips.owner.Closed
		}
		return ctx.Err()
	}
}

// Counts returns how many round trips are under way, and how many calls wait for the next.
func (c *Calls[T]) Counts() (underWay, queued int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trips.underWay, len(c.queued)
}

// queue is Calls as a Queue.
type queue[T any] struct{ *Calls[T] }

func (q queue[T]) Waiting() bool { return len(q.queued) > 0 }

// Next dequeues the next calls that may go together.
func (q queue[T]) Next() (int, func(*store.Pipeline, error)) {
	var calls []*call[T]
	q.chunk.clear()
	n := 0
	for _, c := range q.queued {
		if !c.gone {
			if !q.chunk.add(c.item) {
				break
			}
			calls = append(calls, c)
		}
		n++
	}
	q.queued = slices.Delete(q.queued, 0, n)
	return len(calls), func(p *store.Pipeline, err error) { q.run(p, err, calls) }
}

// run has the calls' items done and answers the callers.
func (q queue[T]) run(p *store.Pipeline, err error, calls []*call[T]) {
	var errs []error
	if err == nil {
		items := make([]T, len(calls))
		for i, c := range calls {
			items[i] = c.item
		}
		p.WithoutCancel()
		errs, err = q.do(p, items)
	}
	for i, c := range calls {
		if err == nil {
			c.done <- errs[i]
		} else {
			c.done <- err
		}
	}
}
