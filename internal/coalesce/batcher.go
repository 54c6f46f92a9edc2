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
	// Apart has each item done by a call of its own. Redis runs a whole call without serving anyone else.
	Apart bool
	// Alike reports whether two items may go together; nil: all may.
	Alike func(a, b T) bool
	// Behind is done on the same connection behind a call, and may add to the items' errors; nil: nothing is.
	Behind func(ctx context.Context, p *store.Pipeline, items []T, errs []error)
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
		if n > 0 && (n == most || sum > maxBytes || ids[id] || k.Alike != nil && !k.Alike(items[0], item)) {
			return n
		}
		ids[id] = true
	}
	return len(items)
}

// Batcher has items done, each for a caller of its own, in round trips that they share. Each caller gets
// exactly its own error.
type Batcher[T any] struct {
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

// NewBatcher makes a Batcher of calls of that kind.
func NewBatcher[T any](o *Owner, s *store.Store, k Kind[T]) *Batcher[T] {
	b := &Batcher[T]{kind: k, ids: map[string]bool{}}
	b.trips = New(o, s, &b.mu, b, RoundTrips)
	return b
}

// Do returns once the item is done, or with ctx's error when that ends before: an item not yet
// sent is not done then. A caller whose ctx has no deadline may make the round trip itself, and
// then waits for the answer whatever becomes of ctx.
func (b *Batcher[T]) Do(ctx context.Context, item T) error {
	answer := make(chan error, 1)
	_, hurries := ctx.Deadline()
	b.mu.Lock()
	b.items, b.answers = append(b.items, item), append(b.answers, answer)
	leads := !hurries && b.trips.TryLead()
	if !leads {
		b.trips.Wake()
	}
	b.mu.Unlock()
	if leads {
		if ctx.Done() == nil {
			ctx = b.trips.owner.Abandoned
		}
		b.trips.Lead(ctx)
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
		b.leave(answer)
		if ctx == b.trips.owner.Abandoned {
			return b.trips.owner.Closed
		}
		return ctx.Err()
	}
}

// leave takes the caller out of the queue, if its item is not yet on its way.
func (b *Batcher[T]) leave(answer chan error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.answers, answer); i >= 0 {
		b.items, b.answers = slices.Delete(b.items, i, i+1), slices.Delete(b.answers, i, i+1)
	}
}

// doTogether has the items done, and returns an error for each.
func (b *Batcher[T]) doTogether(ctx context.Context, p *store.Pipeline, items []T) []error {
	if b.kind.Apart {
		return b.doApart(ctx, p, items)
	}
	errs, err := b.kind.Call(b.trips.store, items).On(ctx, p)
	if err != nil {
		return slices.Repeat([]error{err}, len(items))
	}
	if b.kind.Behind != nil {
		b.kind.Behind(ctx, p, items, errs)
	}
	return errs
}

// doApart has each item done by a call of its own; all of them are under way at a time.
func (b *Batcher[T]) doApart(ctx context.Context, p *store.Pipeline, items []T) []error {
	calls, errs := make([]*store.Call[[]error], len(items)), make([]error, len(items))
	for i := range items {
		calls[i] = b.kind.Call(b.trips.store, items[i:i+1]).Send(p)
	}
	for i, call := range calls {
		results, err := call.Wait(ctx)
		if errs[i] = err; err == nil {
			errs[i] = results[0]
		}
	}
	return errs
}

// Counts returns how many round trips are under way, and how many calls wait for the next.
func (b *Batcher[T]) Counts() (underWay, waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.trips.underWay, len(b.items)
}

// Waiting is that of a Queue, as is Next.
func (b *Batcher[T]) Waiting() bool { return len(b.items) > 0 }

// Next dequeues the next items that may go together.
func (b *Batcher[T]) Next() (int, func(*store.Pipeline, error)) {
	n := b.kind.fit(b.items, b.ids)
	items, answers := slices.Clone(b.items[:n]), slices.Clone(b.answers[:n])
	b.items, b.answers = slices.Delete(b.items, 0, n), slices.Delete(b.answers, 0, n)
	return n, func(p *store.Pipeline, err error) {
		var errs []error
		if err == nil {
			errs = b.doTogether(context.Background(), p, items)
		} else {
			errs = slices.Repeat([]error{err}, n)
		}
		for i, answer := range answers {
			answer <- errs[i]
		}
	}
}
