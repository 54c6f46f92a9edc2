// Package batch lets concurrent calls of one kind share scripts and round trips.
//
// A caller with an item joins the line of its store. While few batches of that kind are under way there, a caller goes at once, in its own goroutine;
// callers that come meanwhile go together in the next batch, which is one script. A caller whose call a cluster refuses for now, because a slot moves,
// sleeps and joins again.
//
// What it promises, and the test that fails without it. The first three are kept by store.Pipeline, which makes the calls.
//
//	promise                                                               | test
//	a script that Redis does not know is sent once; each call is done     | TestPromises; store/TestPipelineWithoutScript,
//	once, behind others if need be                                        | store/TestPipelineSendsTheTextOnce
//	a server that takes no writes any more, or has lost the slot, is      | store/TestPipelineLeavesADemotedServer,
//	left, and what it refused is made at the next one                     | store/TestScriptsWhileASlotMoves
//	after a lost answer it is unknown what was done; nothing is repeated  | TestPromises
//	a moving slot delays no caller of another store                       | TestNobodyWaitsForASlotOnItsWay
//	callers that come while batches are under way share one script        | TestPromises
//	each caller gets exactly one answer, its own                          | TestPromises, client/TestGatheredPushesOfOneID
//	a caller that leaves before its item is sent has done nothing         | TestPromises, TestLeavingWhileASlotMoves
//	a call that was not sent says so (IsNotDone)                          | TestPromises
//	a lone caller goes at once, in its own goroutine                      | TestPromises
//	it leaves at its deadline                                             | TestPromises
package batch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// Batcher does items of one kind, each for a caller of its own, in batches that the callers share. Each caller gets
// exactly its own error.
type Batcher[T any] struct {
	owner   *Owner
	kind    Kind[T]
	mu      sync.Mutex
	lines   map[*store.Store]*line[T]
	callers sync.Pool // that are not in use
}

// RoundTrips is how many batches of a kind are under way to a store at a time. With more, few callers would share
// less; with one, a caller just behind a batch would wait for two.
const RoundTrips = 2

// NewBatcher makes a Batcher of calls of that kind.
func NewBatcher[T any](o *Owner, k Kind[T]) *Batcher[T] {
	return &Batcher[T]{
		owner: o, kind: k, lines: map[*store.Store]*line[T]{},
		callers: sync.Pool{New: func() any { return &caller[T]{answer: make(chan error, 1)} }},
	}
}

// of returns the store's line.
func (b *Batcher[T]) of(s *store.Store) *line[T] {
	l := b.lines[s]
	if l == nil {
		l = &line[T]{batcher: b, store: s, ids: map[string]bool{}}
		l.sender = NewSender(b.owner, s.Pipeline, &b.mu, l, RoundTrips)
		b.lines[s] = l
	}
	return l
}

// Do returns once the item is done at the store, or with ctx's error if that ends first: an item not yet
// sent is not done then. While few batches are under way a caller makes the call itself, and then waits for the answer
// until ctx's deadline, even if ctx is canceled.
func (b *Batcher[T]) Do(ctx context.Context, s *store.Store, item T) error {
	err := b.once(ctx, s, item)
	if err != nil && store.OfOneSlot(err) {
		err = b.again(ctx, s, item, err)
	}
	return err
}

// again does an item that was refused, until it is served. A caller that leaves before the item is sent once more gets the refusal: nothing was done.
func (b *Batcher[T]) again(ctx context.Context, s *store.Store, item T, refusal error) error {
	return s.UntilServed(ctx, func() error {
		err := b.once(ctx, s, item)
		if ctx.Err() != nil && errors.As(err, new(notSent)) {
			return refusal
		}
		return err
	})
}

func (b *Batcher[T]) once(ctx context.Context, s *store.Store, item T) error {
	_, hurries := ctx.Deadline()
	mayGoAlone := !hurries || b.isQuick(item)
	b.mu.Lock()
	l := b.of(s)
	if mayGoAlone && l.sender.underWay < l.sender.most {
		l.sender.underWay++
		b.mu.Unlock()
		return l.alone(ctx, item)
	}
	c := b.callers.Get().(*caller[T])
	c.item = item
	l.queue = append(l.queue, c)
	l.sender.Wake()
	b.mu.Unlock()
	select {
	case err := <-c.answer:
		*c = caller[T]{answer: c.answer} // for another one
		b.callers.Put(c)
		return err
	case <-ctx.Done():
		b.mu.Lock()
		defer b.mu.Unlock()
		c.left = true
		if i := slices.Index(l.queue, c); i >= 0 {
			l.queue = slices.Delete(l.queue, i, i+1)
			return notSent{ctx.Err()}
		}
		return ctx.Err()
	}
}

// alone makes a call for one caller in its own goroutine, which is a fifth faster than in another.
func (l *line[T]) alone(ctx context.Context, item T) error {
	defer func() {
		l.batcher.mu.Lock()
		defer l.batcher.mu.Unlock()
		if l.sender.underWay--; len(l.queue) > 0 {
			l.sender.Wake()
		}
	}()
	p, err := l.store.Pipeline(ctx)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return notSent{ctx.Err()}
	default:
		return notSent{err}
	}
	defer p.Close()
	within := context.Background()
	if _, hurries := ctx.Deadline(); hurries {
		within = untilDeadline{ctx}
	}
	return l.make(within, p, []T{item})[0]
}

// make makes the call for the items, and returns an error for each. ctx bounds the wait for the reply.
func (l *line[T]) make(ctx context.Context, p *store.Pipeline, items []T) []error {
	kind := &l.batcher.kind
	errs, err := kind.Call(l.store, items).Send(p).Wait(ctx)
	if err != nil {
		errs = slices.Repeat([]error{err}, len(items))
	}
	if kind.Behind != nil {
		kind.Behind(context.Background(), p, items, errs)
	}
	return errs
}

// maxQuick is the size of an item, in bytes, that fits in a socket's buffer, so that sending it does not wait for the network.
const maxQuick = 16 << 10

// isQuick reports whether a call that does the item waits for nothing but the reply, which a deadline can end.
func (b *Batcher[T]) isQuick(item T) bool {
	_, bytes := b.kind.Measure(item)
	return bytes <= maxQuick && b.kind.Behind == nil
}

// untilDeadline is a context that only its deadline ends.
type untilDeadline struct{ context.Context }

func (untilDeadline) Done() <-chan struct{} { return nil }

func (c untilDeadline) Err() error {
	if deadline, ok := c.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

type notSent struct{ error }

func (e notSent) Unwrap() error { return e.error }

// IsNotDone reports whether a call that failed has certainly done nothing: it was not sent, or Redis has refused it.
func IsNotDone(err error) bool {
	return errors.As(err, new(notSent)) || store.KindOf(err) == store.NotNow
}

// TestHooks are what tests see of a Batcher. Nothing else uses them.
type TestHooks struct {
	UnderWay int // batches to the store
	Waiting  int // calls for the next one
}

// ForTests returns the hooks.
func (b *Batcher[T]) ForTests(s *store.Store) TestHooks {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.of(s)
	return TestHooks{l.sender.underWay, len(l.queue)}
}

const (
	// maxItems bounds what one script call does, so that it does not keep Redis from others.
	maxItems = 250
	// maxBytes does so, too, but for a single item that is larger.
	maxBytes = 1 << 20
)

// Kind says what calls of a kind do with their items. Some go to Redis together, of about
// 1 MiB, and no ID twice, as the later of two comes after the earlier.
type Kind[T any] struct {
	Measure func(item T) (id string, bytes int) // empty IDs are never equal
	// Call makes the call that does items. Its answer is an error for each.
	Call func(s *store.Store, items []T) *store.Call[[]error]
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
	clear(ids)
	sum := 0
	for n, item := range items {
		id, bytes := k.Measure(item)
		sum += bytes
		if n > 0 && (n == maxItems || sum > maxBytes || id != "" && ids[id] || k.Alike != nil && !k.Alike(items[0], item)) {
			return n
		}
		ids[id] = true
	}
	return len(items)
}
