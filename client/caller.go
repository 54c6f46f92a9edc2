package client

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// kind is how jobs are taken: the zero kind is a pop.
type kind struct {
	reserves bool
	store.Reservation
}

// request is what a caller wants: n jobs at most, and limits[i] at most of names[i]; with
// no limits, n of each. They are taken as kinds[i] says; with no kinds, all in one way.
type request struct {
	kind
	names   []string
	limits  []int
	kinds   []kind
	n       int
	stays   bool          // and waits when there is none
	timeout time.Duration // 0 is none
}

// taken is what came of a request: leases, and when they were asked for, only if it reserves.
type taken struct {
	jobs   []store.Job
	leases []store.Lease
	asked  time.Time
}

// add appends what came later. When that was asked for counts as when the first was.
func (t *taken) add(next taken) {
	if len(t.jobs) == 0 {
		*t = next
		return
	}
	t.jobs, t.leases = append(t.jobs, next.jobs...), append(t.leases, next.leases...)
}

// growsOld reports whether a third of a lease is over. The rest is for the consumer.
func (t *taken) growsOld() bool {
	for _, l := range t.leases {
		if time.Since(t.asked) > l.Length/3 {
			return true
		}
	}
	return false
}

// cut takes the first jobs off, n at most.
func (t *taken) cut(n int) taken {
	n = min(n, len(t.jobs))
	first := taken{jobs: t.jobs[:n:n], asked: t.asked}
	t.jobs = t.jobs[n:]
	if t.leases != nil {
		first.leases, t.leases = t.leases[:n:n], t.leases[n:]
	}
	return first
}

// caller is somebody who wants a job, or several.
type caller struct {
	request
	places  []place      // in the queues where a job may come from; nil when the caller has its answer
	claimed bool         // a pop is under way for it
	leaving error        // why it wanted to go while it was claimed
	trouble error        // why it is not known whether there is a job
	lost    error        // of a pop that may have taken one, which did not arrive
	since   time.Time    // how long there has been trouble
	answer  func(answer) // gives it the caller, once, and does not wait
}

// place is a caller's in one of its queues.
type place struct {
	queue   *topicQueue
	element *list.Element
	most    int  // how many of its jobs the caller wants
	asks    bool // the caller has asked whether there is a job, and has no answer yet
}

type answer struct {
	taken
	err error
}

// bound is ctx, which ends when the timeout is over, too.
func (r *request) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if r.timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, r.timeout)
}

// kindOf is how jobs of names[i] are taken.
func (r *request) kindOf(i int) kind {
	if r.kinds == nil {
		return r.kind
	}
	return r.kinds[i]
}

// alike is the end of the names from i on whose jobs are taken in one way.
func (r *request) alike(i int) (end int) {
	for end = i + 1; end < len(r.names) && r.kindOf(end) == r.kindOf(i); end++ {
	}
	return end
}

// limit is how many jobs of names[i] are wanted at most.
func (r *request) limit(i int) int {
	if r.limits == nil {
		return r.n
	}
	return min(r.limits[i], r.n)
}

// at is the caller's place in the queue; nil if it has none any more.
func (c *caller) at(q *topicQueue) *place {
	for i := range c.places {
		if c.places[i].queue == q {
			return &c.places[i]
		}
	}
	return nil
}

// wants is how many jobs of the queue the caller wants at most.
func (c *caller) wants(q *topicQueue) int { return c.at(q).most }

// asks reports whether the caller waits for an answer of the queue.
func (c *caller) asks(q *topicQueue) bool {
	p := c.at(q)
	return p != nil && p.asks
}

// isAsking reports whether the caller waits for an answer of any queue. If not, it waits for
// jobs.
func (c *caller) isAsking() bool {
	return slices.ContainsFunc(c.places, func(p place) bool { return p.asks })
}

// setAsks enters whether the caller waits for the answers of all its queues, or of none.
func (c *caller) setAsks(asks bool) {
	for i := range c.places {
		c.places[i].asks = asks
	}
}

// askAll has each of the caller's queues looked at.
func (c *caller) askAll() {
	c.setAsks(true)
	for _, p := range c.places {
		p.queue.asking = append(p.queue.asking, c)
		p.queue.wake()
	}
}

// end gives the caller its answer, unless it has one. While a pop is under way for
// it, that comes first.
func (c *caller) end(got taken, err error) {
	switch {
	case c.places == nil:
		return
	case c.claimed:
		c.leaving = cmp.Or(c.leaving, err)
		return
	}
	places := c.places
	c.places = nil
	for _, p := range places {
		p.queue.callers.Remove(p.element)
		p.queue.idle()
	}
	if err == ErrEmpty {
		err = cmp.Or(c.lost, c.trouble, err)
	} else if err != nil && c.lost != nil && err != c.lost {
		err = fmt.Errorf("%w; before that: %w", err, c.lost)
	}
	c.answer(answer{got, err})
}

// isEmpty tells the caller that a queue which it has asked was empty.
func (c *caller) isEmpty(q *topicQueue) {
	if !c.asks(q) {
		return
	}
	if c.at(q).asks = false; !c.isAsking() {
		c.areEmpty()
	}
}

// areEmpty tells the caller that all its queues were empty.
func (c *caller) areEmpty() {
	c.setAsks(false)
	c.relieved()
	c.stay(ErrEmpty)
}

// stay has the caller wait, or, if that is not what it wants, end.
func (c *caller) stay(otherwise error) {
	if !c.stays {
		c.end(taken{}, otherwise)
		return
	}
	for _, p := range c.places {
		p.queue.hear()
	}
}

// relieved tells the caller that Redis answers.
func (c *caller) relieved() {
	c.trouble, c.since = nil, time.Time{}
}

// failed tells the caller that a pop or a look for it has failed. One that stays
// bears what may pass for a while. What it has asked other queues is of no interest then: the
// listener looks at them all.
func (c *caller) failed(err error) {
	now := time.Now()
	c.setAsks(false)
	if c.since.IsZero() {
		c.since = now
	}
	c.trouble = err
	if errors.Is(err, ErrLost) {
		c.lost = err
	}
	if !store.Temporary(err) || now.Sub(c.since) >= rideOut {
		c.end(taken{}, err)
	} else {
		c.stay(err)
	}
}

// isFree reports whether no pop is under way for a caller that wants a job. One
// that is claimed asks again when it is released.
func (c *caller) isFree() bool { return c.places != nil && !c.claimed }

// claim is the callers that one pop is made for.
type claim []*caller

// hold makes the callers stay until release.
func (cl claim) hold() {
	for _, c := range cl {
		c.claimed = true
	}
}

// release hands out what the pop of the queue has brought, in the callers' order; with no
// queue it was of all of theirs.
func (cl claim) release(got taken, err error, q *topicQueue) {
	for _, c := range cl {
		c.claimed = false
		switch {
		case len(got.jobs) > 0:
			n := c.n
			if q != nil {
				n = c.wants(q)
			}
			c.end(got.cut(n), nil)
		case c.leaving == ErrEmpty && err != nil:
			c.end(taken{}, err)
		case c.leaving != nil && errors.Is(err, ErrLost):
			c.end(taken{}, fmt.Errorf("%w; %w", c.leaving, err))
		case c.leaving != nil:
			c.end(taken{}, c.leaving)
		case err != nil:
			c.failed(err)
		}
	}
	// Those who still wait may have missed jobs of their other topics meanwhile.
	for _, c := range cl {
		if len(c.places) > 1 {
			for _, p := range c.places {
				p.queue.wake()
			}
		}
	}
}
