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
	kind    Kind[T]
	trips   *Coalescer
	mu      sync.Mutex
	items   []T          // of the callers that wait for the next round trip
	answers []chan error // theirs; each holds one error
	ids     map[string]bool
}

// RoundTrips is how many of a kind are under way at a time. With more, few callers would share
// less; with one, a caller just behind a round trip would wait for two.
const RoundTrips = 2

// NewCalls makes Calls of that kind.
func NewCalls[T any](o *Owner, s *store.Store, k Kind[T]) *Calls[T] {
	c := &Calls[T]{kind: k, ids: map[string]bool{}}
	c.trips = New(o, s, &c.mu, queue[T]{c}, RoundTrips)
	return c
}

// Call returns once the item is done, or with ctx's error when that ends before: an item not yet
// sent is not done then. A caller whose ctx has no deadline may make the round trip itself, and
// then waits for the answer whatever becomes of ctx.
func (c *Calls[T]) Call(ctx context.Context, item T) error {
	answer := make(chan error, 1)
	_, hurries := ctx.Deadline()
	c.mu.Lock()
	c.items, c.answers = append(c.items, item), append(c.answers, answer)
	leads := !hurries && c.trips.MayLead()
	if !leads {
		c.trips.Wake()
	}
	c.mu.Unlock()
	if leads {
		if ctx.Done() == nil {
			ctx = c.trips.owner.Abandoned
		}
		c.trips.Lead(ctx)
		select {
		case err := <-answer: // even if ctx is done, too
			return err
		default:
		}
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		c.leave(answer)
		if ctx == c.trips.owner.Abandoned {
			return c.trips.owner.Closed
		}
		return ctx.Err()
	}
}

// leave takes the caller out of the queue, if its item is not yet on its way.
func (c *Calls[T]) leave(answer chan error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.answers, answer); i >= 0 {
		c.items, c.answers = slices.Delete(c.items, i, i+1), slices.Delete(c.answers, i, i+1)
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
	for _, chunk := range c.kind.Chunks(items) {
		var results []error
		failed := err
		if err == nil {
			results, failed = c.kind.Do(p, chunk)
		}
		if failed != nil {
			results = slices.Repeat([]error{failed}, len(chunk))
			if store.KindOf(failed) == store.NoAnswer {
				err = failed
			}
		}
		errs = append(errs, results...)
	}
	return errs
}

// Counts returns how many round trips are under way, and how many calls wait for the next.
func (c *Calls[T]) Counts() (underWay, waiting int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trips.underWay, len(c.items)
}

// queue is Calls as a Queue.
type queue[T any] struct{ *Calls[T] }

func (q queue[T]) Waiting() bool { return len(q.items) > 0 }

// Next dequeues the next items that may go together.
func (q queue[T]) Next() (int, func(*store.Pipeline, error)) {
	n := q.kind.fit(q.items, q.ids)
	items, answers := slices.Clone(q.items[:n]), slices.Clone(q.answers[:n])
	q.items, q.answers = slices.Delete(q.items, 0, n), slices.Delete(q.answers, 0, n)
	return n, func(p *store.Pipeline, err error) {
		var errs []error
		if err == nil {
			p.WithoutCancel()
			errs, err = q.kind.Do(p, items)
		}
		for i, answer := range answers {
			if err == nil {
				answer <- errs[i]
			} else {
				answer <- err
			}
		}
	}
}
