package client

import (
	"context"
	"slices"
	"sync"

	"github.com/mix-basic/delayer/internal/store"
)

// shared are calls that each have one item done, and share round trips. Each caller
// gets exactly its own error.
type shared[T any] struct {
	coalescer
	mu       sync.Mutex
	gathered []*sharedCall[T]
	// begin is called when a round trip's items are put together. What it returns says of
	// each item whether it may go with those before it.
	begin func() (fits func(item T) bool)
	// do has the items done. The first result has an error for each.
	do func(p *store.Pipeline, items []T) ([]error, error)
}

type sharedCall[T any] struct {
	item T
	done chan error // holds one
	gone bool       // its caller left; guarded by shared.mu
}

func newShared[T any](c *Client, s *store.Store, most int, begin func() func(T) bool, do func(*store.Pipeline, []T) ([]error, error)) *shared[T] {
	g := &shared[T]{begin: begin, do: do}
	g.coalescer = coalescer{client: c, store: s, mu: &g.mu, queue: g, most: most}
	return g
}

// call returns when the item is done, or with ctx's error when that ends before: then
// it is not done if it was not yet sent. A caller whose ctx has no deadline may make
// the round trip itself; it waits for the answer then, whatever becomes of ctx.
func (g *shared[T]) call(ctx context.Context, item T) error {
	mine := &sharedCall[T]{item: item, done: make(chan error, 1)}
	g.mu.Lock()
	g.gathered = append(g.gathered, mine)
	_, hurries := ctx.Deadline()
	leads := !hurries && g.mayLead()
	if !leads {
		g.wake()
	}
	g.mu.Unlock()
	if leads {
		if ctx.Done() == nil {
			ctx = g.client.abandoned
		}
		g.lead(ctx)
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
		g.mu.Lock()
		mine.gone = true
		g.mu.Unlock()
		if ctx == g.client.abandoned {
			return ErrClosed
		}
		return ctx.Err()
	}
}

func (g *shared[T]) waiting() bool { return len(g.gathered) > 0 }

func (g *shared[T]) idle() {}

// next takes off the next calls that may go together.
func (g *shared[T]) next() (int, func(*store.Pipeline, error)) {
	var calls []*sharedCall[T]
	fits, n := g.begin(), 0
	for _, c := range g.gathered {
		if !c.gone {
			if !fits(c.item) && len(calls) > 0 || len(calls) == maxJobs {
				break
			}
			calls = append(calls, c)
		}
		n++
	}
	g.gathered = slices.Delete(g.gathered, 0, n)
	return len(calls), func(p *store.Pipeline, err error) { g.doAll(p, err, calls) }
}

// doAll has the calls' items done and tells the callers.
func (g *shared[T]) doAll(p *store.Pipeline, err error, calls []*sharedCall[T]) {
	var errs []error
	if err == nil {
		items := make([]T, len(calls))
		for i, c := range calls {
			items[i] = c.item
		}
		p.WithoutCancel()
		errs, err = g.do(p, items)
	}
	for i, c := range calls {
		if err == nil {
			c.done <- errs[i]
		} else {
			c.done <- err
		}
	}
}
