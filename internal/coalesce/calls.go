package coalesce

import (
	"context"
	"slices"
	"sync"

	"github.com/mix-basic/delayer/internal/store"
)

const (
	// maxItems bounds what one script call does, so that it does not keep Redis from others, and
	// maxApart how many calls of one item go together.
	maxItems, maxApart = 250, 32
	// maxBytes does so, too, but for a single item that is larger.
	maxBytes = 1 << 20
)

// Kind says what calls of a kind do with their items. Some go to Redis together, of about
// 1 MiB, and no ID twice, as the later of two comes after the earlier.
type Kind[T any] struct {
	Measure func(item T) (id string, bytes int)
	// Call makes the call that does items. Its answer is an error for each.
	Call func(s *store.Store, items []T) *store.Call[[]error]
	// Apart has each item done by a call of its own. Redis may do without a break what one call says.
	Apart bool
}

// Chunks divides the items, in their order, into what goes to Redis together.
func (k Kind[T]) Chunks(items []T) (chunks [][]T) {
	ids := map[string]bool{}
	for len(items) > 0 {
		n := k.fit(items, ids)
		chunks, items = append(chunks, items[:n]), items[n:]
	}
	return chunks
}

// fit returns how many of the first items go to Redis together. ids is only room to work in.
func (k Kind[T]) fit(items []T, ids map[string]bool) int {
	if len(items) < 2 {
		return len(items)
	}
	most := maxItems
	if k.Apart {
		most = maxApart
	}
	clear(ids)
	sum := 0
	for n, item := range items {
		id, bytes := k.Measure(item)
		sum += bytes
		if n > 0 && (n == most || sum > maxBytes || ids[id]) {
			return n
		}
		ids[id] = true
	}
	return len(items)
}

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
	c.trips = New(o, s, &c.mu, c, RoundTrips)
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
	p, err := c.trips.store.Pipeline(ctx)
	if err != nil {
		return slices.Repeat([]error{err}, len(items))
	}
	defer p.Close()
	errs := make([]error, 0, len(items))
	for _, chunk := range c.kind.Chunks(items) {
		errs = append(errs, c.do(ctx, p, chunk)...)
	}
	return errs
}

// do has the items done, and returns an error for each.
func (c *Calls[T]) do(ctx context.Context, p *store.Pipeline, items []T) []error {
	size := len(items)
	if c.kind.Apart {
		size = 1
	}
	calls := make([]*store.Call[[]error], 0, 1)
	for some := range slices.Chunk(items, size) {
		calls = append(calls, c.kind.Call(c.trips.store, some).Send(p))
	}
	var errs []error
	for _, call := range calls {
		some, err := call.Wait(ctx)
		if err != nil {
			some = slices.Repeat([]error{err}, size)
		}
		errs = append(errs, some...)
	}
	return errs
}

// Counts returns how many round trips are under way, and how many calls wait for the next.
func (c *Calls[T]) Counts() (underWay, waiting int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trips.underWay, len(c.items)
}

// Waiting is that of a Queue, as is Next.
func (c *Calls[T]) Waiting() bool { return len(c.items) > 0 }

// Next dequeues the next items that may go together.
func (c *Calls[T]) Next() (int, func(*store.Pipeline, error)) {
	n := c.kind.fit(c.items, c.ids)
	items, answers := slices.Clone(c.items[:n]), slices.Clone(c.answers[:n])
	c.items, c.answers = slices.Delete(c.items, 0, n), slices.Delete(c.answers, 0, n)
	return n, func(p *store.Pipeline, err error) {
		var errs []error
		if err == nil {
			errs = c.do(context.Background(), p, items)
		} else {
			errs = slices.Repeat([]error{err}, n)
		}
		for i, answer := range answers {
			answer <- errs[i]
		}
	}
}
