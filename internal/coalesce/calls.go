package coalesce

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
)

// Calls are calls that each have one item done and share round trips. Each caller gets exactly
// its own error.
type Calls[T any] struct {
	trips  *Coalescer
	mu     sync.Mutex
	queued []*call[T]
	next   *chunk[T]
}

type call[T any] struct {
	item T
	done chan error // holds one
	gone bool       // its caller left; guarded by Calls.mu
}

// RoundTrips is how many of a kind are under way at a time. With more, few callers would share
// less; with one, a caller just behind a round trip would wait for two.
const RoundTrips = 2

// NewCalls makes Calls of that kind.
func NewCalls[T any](o *Owner, s *store.Store, k Kind[T]) *Calls[T] {
	c := &Calls[T]{next: newChunk(k)}
	c.trips = New(o, s, &c.mu, queue[T]{c}, RoundTrips)
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

// Batch has many items done on one connection, a chunk at a time, and returns an error for each.
// An error of Redis is that of one chunk, any other is that of all that follow.
func (c *Calls[T]) Batch(ctx context.Context, items []T) []error {
	if len(items) == 0 {
		return nil
	}
	errs := make([]error, 0, len(items))
	p, err := c.trips.store.Pipeline(ctx)
	if err == nil {
		defer p.Close()
	}
	for _, chunk := range c.next.Chunks(items) {
		var results []error
		failed := err
		if err == nil {
			results, failed = c.next.Do(p, chunk)
		}
		if failed != nil {
			results = slices.Repeat([]error{failed}, len(chunk))
			if !errors.As(failed, new(redis.Error)) {
				err = failed
			}
		}
		errs = append(errs, results...)
	}
	return errs
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
	q.next.clear()
	n := 0
	for _, c := range q.queued {
		if !c.gone {
			if !q.next.add(c.item) {
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
		errs, err = q.next.Do(p, items)
	}
	for i, c := range calls {
		if err == nil {
			c.done <- errs[i]
		} else {
			c.done <- err
		}
	}
}
