package coalesce

import (
	"context"
	"maps"
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

// Batcher has items done, each for a caller of its own, in round trips that they share: those of stores that the
// same connections lead to go together. Each caller gets exactly its own error.
type Batcher[T any] struct {
	owner *Owner
	kind  Kind[T]
	mu    sync.Mutex
	nodes map[any]*batch[T] // by the stores' Node
}

// batch are the callers that wait for the next round trip to a node.
type batch[T any] struct {
	kind    Kind[T]
	trips   *Coalescer
	mu      *sync.Mutex
	latest  *store.Store // that an item came for
	stores  []*store.Store
	items   []T          // each for one of the stores
	answers []chan error // the callers'; each holds one error
	ids     map[string]bool
}

// RoundTrips is how many of a kind are under way to a node at a time. With more, few callers would share
// less; with one, a caller just behind a round trip would wait for two.
const RoundTrips = 2

// NewBatcher makes a Batcher of calls of that kind.
func NewBatcher[T any](o *Owner, k Kind[T]) *Batcher[T] {
	return &Batcher[T]{owner: o, kind: k, nodes: map[any]*batch[T]{}}
}

// of is the batch of the store's node. Those of nodes that nobody asks any more are forgotten.
func (b *Batcher[T]) of(s *store.Store) *batch[T] {
	node := s.Node()
	n := b.nodes[node]
	if n == nil {
		maps.DeleteFunc(b.nodes, func(_ any, n *batch[T]) bool { return n.trips.underWay == 0 && !n.Waiting() })
		n = &batch[T]{kind: b.kind, mu: &b.mu, ids: map[string]bool{}}
		n.trips = New(b.owner, n.connect, &b.mu, n, RoundTrips)
		b.nodes[node] = n
	}
	n.latest = s
	return n
}

func (n *batch[T]) connect(ctx context.Context) (*store.Pipeline, error) {
	n.mu.Lock()
	s := n.latest
	n.mu.Unlock()
	return s.Pipeline(ctx)
}

// Do returns once the item is done at the store, or with ctx's error when that ends before: an item not yet
// sent is not done then. A caller whose ctx has no deadline may make the round trip itself, and
// then waits for the answer whatever becomes of ctx.
func (b *Batcher[T]) Do(ctx context.Context, s *store.Store, item T) error {
	answer := make(chan error, 1)
	_, hurries := ctx.Deadline()
	b.mu.Lock()
	n := b.of(s)
	n.stores, n.items, n.answers = append(n.stores, s), append(n.items, item), append(n.answers, answer)
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
		case err := <-answer: // even if ctx is done, too
			return err
		default:
		}
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		n.leave(answer)
		if ctx == b.owner.Abandoned {
			return b.owner.Closed
		}
		return ctx.Err()
	}
}

// leave takes the caller out of the queue, if its item is not yet on its way.
func (n *batch[T]) leave(answer chan error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i := slices.Index(n.answers, answer); i >= 0 {
		n.cut(i, i+1)
	}
}

// cut takes callers out of the queue.
func (n *batch[T]) cut(from, to int) {
	n.stores, n.items, n.answers = slices.Delete(n.stores, from, to), slices.Delete(n.items, from, to), slices.Delete(n.answers, from, to)
}

// doTogether has the items done, each at its store, and returns an error for each. All calls are under way at a time.
func (k Kind[T]) doTogether(ctx context.Context, p *store.Pipeline, stores []*store.Store, items []T) []error {
	if !k.Apart && !slices.ContainsFunc(stores, func(s *store.Store) bool { return s != stores[0] }) {
		return k.doAtOne(ctx, p, stores[0], items)
	}
	type call struct {
		*store.Call[[]error]
		places []int
	}
	var calls []call
	for _, places := range k.callsOf(stores) {
		theirs := make([]T, len(places))
		for i, place := range places {
			theirs[i] = items[place]
		}
		calls = append(calls, call{k.Call(stores[places[0]], theirs).Send(p), places})
	}
	errs := make([]error, len(items))
	for _, c := range calls {
		each, err := c.Wait(ctx)
		for i, place := range c.places {
			if errs[place] = err; err == nil {
				errs[place] = each[i]
			}
		}
	}
	if k.Behind != nil && p.Works() {
		k.Behind(ctx, p, items, errs)
	}
	return errs
}

// doAtOne is doTogether for the items of one store.
func (k Kind[T]) doAtOne(ctx context.Context, p *store.Pipeline, s *store.Store, items []T) []error {
	errs, err := k.Call(s, items).On(ctx, p)
	if err != nil {
		return slices.Repeat([]error{err}, len(items))
	}
	if k.Behind != nil {
		k.Behind(ctx, p, items, errs)
	}
	return errs
}

// callsOf divides items into those that one call does: those of each store or, if it does one at a time, each.
func (k Kind[T]) callsOf(stores []*store.Store) (calls [][]int) {
	at := map[*store.Store]int{}
	for place, s := range stores {
		i, known := at[s]
		if !known || k.Apart {
			i = len(calls)
			calls, at[s] = append(calls, nil), i
		}
		calls[i] = append(calls[i], place)
	}
	return calls
}

// Counts returns how many round trips are under way to the store's node, and how many calls wait for the next.
func (b *Batcher[T]) Counts(s *store.Store) (underWay, waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.of(s)
	return n.trips.underWay, len(n.items)
}

// Waiting is that of a Queue, as is Next.
func (n *batch[T]) Waiting() bool { return len(n.items) > 0 }

// Next dequeues the next items that may go together.
func (n *batch[T]) Next() (int, func(*store.Pipeline, error)) {
	many := n.kind.fit(n.items, n.ids)
	stores, items, answers := slices.Clone(n.stores[:many]), slices.Clone(n.items[:many]), slices.Clone(n.answers[:many])
	n.cut(0, many)
	return many, func(p *store.Pipeline, err error) {
		var errs []error
		if err == nil {
			errs = n.kind.doTogether(context.Background(), p, stores, items)
		} else {
			errs = slices.Repeat([]error{err}, many)
		}
		for i, answer := range answers {
			answer <- errs[i]
		}
	}
}
