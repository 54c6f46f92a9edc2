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
// no limits, n of each.
type request struct {
	kind
	names   []string
	limits  []int
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
	queues  []*topicQueue   // where it may come from
	most    []int           // how many jobs it wants of each of these queues
	places  []*list.Element // in these queues; nil when the caller has its answer
	asks    int             // how many of these queues it has asked and got no answer from
	claimed bool            // a pop is under way for it
	leaving error           // why it wanted to go while it was claimed
	trouble error           // why it is not known whether there is a job
	lost    error           // of a pop that may have taken one, which did not arrive
	since   time.Time       // how long there has been trouble
	answer  func(answer)    // gives it the caller, once, and does not wait
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

// limit is how many jobs of names[i] are wanted at most.
func (r *request) limit(i int) int {
	if r.limits == nil {
		return r.n
	}
	return min(r.limits[i], r.n)
}

// wants is how many jobs of the queue the caller wants at most.
func (c *caller) wants(q *topicQueue) int { return c.most[slices.Index(c.queues, q)] }

// askAll has each of the caller's queues looked at.
func (c *caller) askAll() {
	c.asks = len(c.queues)
	for _, q := range c.queues {
		q.asking = append(q.asking, c)
		q.wake()
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
	for i, q := range c.queues {
		q.callers.Remove(c.places[i])
		q.idle()
	}
	c.places = nil
	if err == ErrEmpty {
		err = cmp.Or(c.lost, c.trouble, err)
	} else if err != nil && c.lost != nil && err != c.lost {
		err = fmt.Errorf("%w; before that: %w", err, c.lost)
	}
	c.answer(answer{got, err})
}

// isEmpty tells the caller that one of its queues was empty.
func (c *caller) isEmpty() {
	if c.asks--; c.asks > 0 {
		return
	}
	c.relieved()
	c.stay(ErrEmpty)
}

// stay has the caller wait, or, if that is not what it wants, end.
func (c *caller) stay(otherwise error) {
	if !c.stays {
		c.end(taken{}, otherwise)
		return
	}
	for _, q := range c.queues {
		q.hear()
	}
}

// relieved tells the caller that Redis answers.
func (c *caller) relieved() {
	c.trouble, c.since = nil, time.Time{}
}

// failed tells the caller that a pop or a look for it has failed. One that stays
// bears what may pass for a while.
func (c *caller) failed(err error) {
	now := time.Now()
	c.asks = 0
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
		if c.places != nil && len(c.queues) > 1 {
			for _, q := range c.queues {
				q.wake()
			}
		}
	}
}
