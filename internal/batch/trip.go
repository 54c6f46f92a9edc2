package batch

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/mix-basic/delayer/internal/store"
)

// trip is a round trip.
type trip[T any] struct {
	batch   *batch[T]
	callers []*caller[T]
	items   []T     // theirs
	errs    []error // their answers
	calls   []call[T]
}

// call is one of a trip, for some of its callers.
type call[T any] struct {
	*store.Call[[]error]
	callers []*caller[T]
	errs    []error
}

// make makes the trip, and answers the callers: those of each call as soon as it is done, unless something is to be done
// behind all. err is why there is no connection.
func (t *trip[T]) make(p *store.Pipeline, err error) {
	defer t.end()
	if err != nil {
		for _, c := range t.callers {
			c.answer <- notSent{err}
		}
		return
	}
	ctx, behind := context.Background(), t.batch.batcher.kind.Behind
	p.Direct = true
	t.send(p)
	for _, c := range t.calls {
		err := c.receive(ctx)
		if c.IsElsewhere() {
			t.batch.setAside(c.callers, err)
			continue
		}
		t.batch.isServed()
		if behind == nil {
			t.batch.tell(c)
		}
	}
	if behind == nil {
		return
	}
	behind(ctx, p, t.items, t.errs)
	for _, c := range t.calls {
		if !c.IsElsewhere() {
			t.batch.tell(c)
		}
	}
}

// notSent is why there is no connection.
type notSent struct{ error }

func (e notSent) Unwrap() error { return e.error }

// IsNotDone reports whether a call that failed has certainly done nothing: it was not sent, or Redis has refused it.
func IsNotDone(err error) bool {
	return errors.As(err, new(notSent)) || store.KindOf(err) == store.NotNow
}

func (t *trip[T]) send(p *store.Pipeline) {
	k := t.batch.batcher.kind
	t.group()
	t.errs = append(t.errs, make([]error, len(t.items))...)
	for from, to := 0, 0; from < len(t.items); from = to {
		s := t.callers[from].store
		to = from + 1
		for to < len(t.items) && t.callers[to].store == s {
			to++
		}
		t.calls = append(t.calls, call[T]{k.Call(s, t.items[from:to]).Send(p), t.callers[from:to], t.errs[from:to]})
	}
}

// group has the callers of each store stand together, in their order.
func (t *trip[T]) group() {
	if !slices.ContainsFunc(t.callers, func(c *caller[T]) bool { return c.store != t.callers[0].store }) {
		return
	}
	orders := map[*store.Store]int{}
	for _, c := range t.callers {
		order, known := orders[c.store]
		if !known {
			order = len(orders)
			orders[c.store] = order
		}
		c.order = order
	}
	slices.SortStableFunc(t.callers, func(a, b *caller[T]) int { return cmp.Compare(a.order, b.order) })
	for i, c := range t.callers {
		t.items[i] = c.item
	}
}

// receive waits for the call's answer. An error of the call is that of all of its items.
func (c *call[T]) receive(ctx context.Context) error {
	errs, err := c.Wait(ctx)
	for i := range c.errs {
		if c.errs[i] = err; err == nil {
			c.errs[i] = errs[i]
		}
	}
	return err
}

// tell gives the call's callers their answers, but for those whose items are for another call: they are the next.
func (n *batch[T]) tell(c call[T]) {
	var later []*caller[T]
	for i, caller := range c.callers {
		if c.errs[i] == store.ErrLater {
			later = append(later, caller)
		} else {
			caller.answer <- c.errs[i]
		}
	}
	if len(later) > 0 {
		n.putBack(later)
	}
}

// end has the trip used for another one.
func (t *trip[T]) end() {
	trips := &t.batch.batcher.trips
	clear(t.callers)
	clear(t.items)
	clear(t.errs)
	clear(t.calls)
	*t = trip[T]{callers: t.callers[:0], items: t.items[:0], errs: t.errs[:0], calls: t.calls[:0]}
	trips.Put(t)
}
