package batch

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
)

// retryWindow is redisconn.RetryWindow, but for tests.
var retryWindow = redisconn.RetryWindow

// line is the Queue of the callers for one node, or for one store apart. The Batcher's mutex guards it.
type line[T any] struct {
	batcher *Batcher[T]
	sender  *Sender
	latest  *store.Store // of the latest caller; all stores of a line share connections
	queue   []*caller[T]
	ids     map[string]bool // room for Kind.fit
	isApart bool
	tries   *redisconn.Tries // paces the batches to a store apart after a refusal, or nil
}

type caller[T any] struct {
	store  *store.Store
	item   T
	answer chan error // holds one
	line   *line[T]   // its line, also while its item is in flight; nil after it has left
	until  time.Time  // from then on a refusal is its answer; zero before the first refusal
}

func newLine[T any](b *Batcher[T], atATime int) *line[T] {
	l := &line[T]{batcher: b, ids: map[string]bool{}}
	l.sender = NewSender(b.owner, l.connect, &b.mu, l, atATime)
	return l
}

func (l *line[T]) connect(ctx context.Context) (*store.Pipeline, error) {
	l.batcher.mu.Lock()
	s, tries := l.latest, l.tries
	l.batcher.mu.Unlock()
	if tries != nil && !tries.Wait(ctx) {
		return nil, ctx.Err()
	}
	return s.Pipeline(ctx)
}

func (l *line[T]) isInUse() bool { return l.sender.underWay > 0 || l.Waiting() }

// Waiting implements Queue, as does Next.
func (l *line[T]) Waiting() bool { return len(l.queue) > 0 }

// Next dequeues the next callers whose items may go together.
func (l *line[T]) Next() (int, func(*store.Pipeline, error)) {
	items := make([]T, min(len(l.queue), maxItems))
	for i := range items {
		items[i] = l.queue[i].item
	}
	n := l.batcher.kind.fit(items, l.ids)
	callers := slices.Clone(l.queue[:n])
	l.queue = slices.Delete(l.queue, 0, n)
	return n, func(p *store.Pipeline, err error) { l.do(p, callers, err) }
}

// call is the part of a batch that is for one store.
type call[T any] struct {
	*store.Call[[]error]
	callers []*caller[T]
	items   []T
}

// do makes a batch's calls and answers the callers: those of each call as soon as it is done, unless the kind does
// something behind all of them. err is why there is no connection.
func (l *line[T]) do(p *store.Pipeline, callers []*caller[T], err error) {
	if err != nil {
		for _, c := range callers {
			c.answer <- notSent{err}
		}
		return
	}
	p.OnRefusal = store.NoRedirect
	kind := l.batcher.kind
	var calls []call[T]
	for _, of := range redisconn.GroupBy(callers, func(c *caller[T]) *store.Store { return c.store }) {
		items := make([]T, len(of))
		for i, c := range of {
			items[i] = c.item
		}
		calls = append(calls, call[T]{kind.Call(of[0].store, items).Send(p), of, items})
	}
	var done []*caller[T]
	var items []T
	var errs []error
	for _, c := range calls {
		theirs, err := c.Wait(context.Background())
		if c.IsElsewhere() {
			l.goApart(c.callers, err)
			continue
		}
		l.isServed()
		if err != nil { // it is the error of each item
			theirs = slices.Repeat([]error{err}, len(c.items))
		}
		if kind.Behind == nil {
			l.tell(c.callers, theirs)
			continue
		}
		done, items, errs = append(done, c.callers...), append(items, c.items...), append(errs, theirs...)
	}
	if len(done) > 0 {
		kind.Behind(context.Background(), p, items, errs)
		l.tell(done, errs)
	}
}

// tell gives callers their answers. Those whose items are for another call come next, unless they have left.
func (l *line[T]) tell(callers []*caller[T], errs []error) {
	var later []*caller[T]
	for i, c := range callers {
		if errs[i] == store.ErrLater {
			later = append(later, c)
		} else {
			c.answer <- errs[i]
		}
	}
	if len(later) == 0 {
		return
	}
	l.batcher.mu.Lock()
	defer l.batcher.mu.Unlock()
	later = slices.DeleteFunc(later, func(c *caller[T]) bool { return c.line == nil })
	l.queue = slices.Insert(l.queue, 0, later...)
	l.sender.Wake()
}

func (l *line[T]) leave(c *caller[T]) {
	if i := slices.Index(l.queue, c); i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
	}
	c.line = nil
}

// goApart makes the callers of one store, whose call was refused because its hash slot is moving (or its node is away), wait in a line
// apart, so that they delay nobody else. A caller that has been refused for redisconn.RetryWindow gets the refusal.
func (l *line[T]) goApart(callers []*caller[T], refusal error) {
	b := l.batcher
	b.mu.Lock()
	defer b.mu.Unlock()
	s := callers[0].store
	apart := b.apart[s]
	switch {
	case apart == nil:
		apart = newLine(b, 1)
		apart.latest, apart.isApart = s, true
		b.apart[s] = apart
	case apart == l && apart.tries == nil: // it was tried where it should be by now
		apart.tries = redisconn.NewTries(math.MaxInt64)
	}
	now := time.Now()
	var again []*caller[T]
	for _, c := range callers {
		if c.until.IsZero() {
			c.until = now.Add(retryWindow)
		}
		switch {
		case c.line == nil: // it has left
		case now.Before(c.until):
			c.line = apart
			again = append(again, c)
		default:
			c.answer <- refusal
		}
	}
	apart.queue = slices.Insert(apart.queue, 0, again...) // an ID may occur twice there
	apart.sender.Wake()
}

// isServed ends a line apart: new callers share batches with the others of the node.
func (l *line[T]) isServed() {
	if !l.isApart {
		return
	}
	l.batcher.mu.Lock()
	defer l.batcher.mu.Unlock()
	l.tries = nil
	if l.batcher.apart[l.latest] == l {
		delete(l.batcher.apart, l.latest)
	}
}
