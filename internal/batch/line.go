package batch

import (
	"context"
	"slices"

	"github.com/mix-basic/delayer/internal/store"
)

// line is the Queue of the callers for one store. The Batcher's mutex guards it.
type line[T any] struct {
	batcher *Batcher[T]
	store   *store.Store
	sender  *Sender
	queue   []*caller[T]
	ids     map[string]bool // room for Kind.fit
}

type caller[T any] struct {
	item   T
	answer chan error // holds one
	left   bool
}

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
	return n, func(p *store.Pipeline, err error) {
		if err != nil {
			l.tell(callers, slices.Repeat([]error{notSent{err}}, n))
		} else {
			l.tell(callers, l.make(context.Background(), p, items[:n]))
		}
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
	later = slices.DeleteFunc(later, func(c *caller[T]) bool { return c.left })
	l.queue = slices.Insert(l.queue, 0, later...)
	l.sender.Wake()
}
