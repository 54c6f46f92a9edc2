package wait

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// RetryWindow is how long a waiting call tolerates an outage.
const RetryWindow = 3 * time.Second

// Caller is a call that wants one or more jobs. It is for one goroutine, which polls partitions and then waits for them. Meanwhile it is in a
// queue, or claimed by a poll, or in the lists of the topics that it waits for.
type Caller struct {
	Request
	shared    *Shared
	joined    time.Time
	in        *queue
	isClaimed bool
	topics    []*topic    // that it waits for; nil while it polls
	leaving   error       // why it wants to leave, if it is claimed
	lastErr   error       // why we do not know whether there is a job
	failing   time.Time   // when errors began; zero without errors
	lost      error       // a pop whose reply was lost, perhaps with a job
	isOpen    bool        // it has no answer yet
	answers   chan answer // holds one
}

type answer struct {
	Jobs
	err error // nil without jobs: the topics are empty
}

// NewCaller returns the caller of that request.
func (s *Shared) NewCaller(r Request) *Caller {
	c := &Caller{Request: r, shared: s, joined: time.Now(), answers: make(chan answer, 1)}
	if len(r.Topics) == 1 {
		if r.Kinds != nil {
			c.Kind, c.N, c.Kinds, c.Limits = r.Kinds[0], r.limit(0), nil, nil
		}
		return c
	}
	for i := len(r.Topics) - 1; i > 0 && r.Kinds == nil; i-- { // BPop may name a topic twice
		if slices.Contains(r.Topics[:i], r.Topics[i]) {
			c.Topics = slices.Delete(slices.Clone(c.Topics), i, i+1)
		}
	}
	return c
}

// Poll takes jobs that the partition has now, or returns store.ErrEmpty. A caller that waits polls no topics that are known to have no job for
// it. The end of ctx ends the call at once unless a poll for the caller is in flight.
func (c *Caller) Poll(ctx context.Context, p *Partition) (Jobs, error) {
	for next := 0; next < len(c.Topics); {
		then, lead, err := c.join(p, next)
		if err != nil {
			return Jobs{}, err
		}
		if lead != nil {
			lead(ctx)
		}
		if a := c.answer(ctx, nil); len(a.Jobs.Jobs) > 0 || a.err != nil {
			return a.Jobs, a.err
		}
		next = then
	}
	return Jobs{}, store.ErrEmpty
}

// join puts the caller into the queue for its next topics, from that index on, that are taken in the same way. then is the index of the first one
// behind them. If lead is not nil, the caller must call it to poll; otherwise another goroutine polls. Without topics to poll, the caller has its
// answer.
func (c *Caller) join(p *Partition, next int) (then int, lead func(context.Context), err error) {
	p.shared.mu.Lock()
	defer p.shared.mu.Unlock()
	if p.shared.closing.Err() != nil {
		return 0, nil, p.shared.owner.Closed
	}
	var q *queue
	if len(c.Topics) == 1 {
		t := p.shared.topic(c.Topics[0])
		t.left = c.joined
		if of := &t.in[p.number]; !c.Waits || !of.isEmpty(&c.Kind) {
			q = of.queue(&c.Kind)
		}
		then = 1
	} else {
		q, then = c.ownQueue(p, next)
	}
	c.isOpen = true
	if q == nil {
		c.end(Jobs{}, nil)
		return then, nil, nil
	}
	c.in, q.callers = q, append(q.callers, c)
	if q.inTurns || q.isOut { // the goroutine that polls for callers ahead also serves this one
		return then, nil, nil
	}
	q.queueUp()
	if p.batches.TryLead() {
		return then, p.batches.Lead, nil
	}
	return then, nil, nil // the next batch has the poll
}

// ownQueue returns a queue for some of several topics, which keeps their order. A caller that always finds jobs never waits, but polls fewer topics if
// we are registered for those without jobs.
func (c *Caller) ownQueue(p *Partition, next int) (q *queue, then int) {
	if c.Waits {
		p.listener.start()
	}
	for then = next; then < len(c.Topics); then++ {
		t, k := p.shared.topic(c.Topics[then]), c.kind(then)
		of := &t.in[p.number]
		t.left = c.joined
		switch {
		case c.Waits && of.isEmpty(k):
			continue
		case q == nil:
			q = &queue{partition: p, kind: *k}
		case *k != q.kind || len(q.from) == maxTopics:
			return q, then
		}
		q.from, q.indices = append(q.from, of), append(q.indices, then)
	}
	return q, then
}

// First returns the first of the partitions that may have a job for a caller that waits, or nil.
func (c *Caller) First(order []*Partition) *Partition {
	s := c.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	may := make([]bool, len(s.partitions))
	for i, name := range c.Topics {
		t, k := s.topics[name], c.kind(i)
		if t == nil {
			return order[0]
		}
		for n := range t.in {
			may[n] = may[n] || !t.in[n].isEmpty(k)
		}
	}
	for _, p := range order {
		if may[p.number] {
			return p
		}
	}
	return nil
}

// Wait waits for a job of any partition, and returns store.ErrEmpty after the timeout; 0 means to wait as long as ctx allows. failed is why a poll
// failed before, if it did. While no partition answers it gives up after RetryWindow.
func (c *Caller) Wait(ctx context.Context, timeout time.Duration, failed error) (Jobs, error) {
	var over <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		over = timer.C
	}
	c.enter(failed)
	a := c.answer(ctx, over)
	return a.Jobs, a.err
}

// enter puts the caller into the lists of its topics.
func (c *Caller) enter(failed error) {
	s := c.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	c.isOpen = true
	if failed != nil && failed != store.ErrEmpty {
		if c.retry(failed); !c.isOpen {
			return
		}
	}
	c.topics = make([]*topic, len(c.Topics))
	for i, name := range c.Topics {
		t := s.topic(name)
		t.waiters, c.topics[i] = append(t.waiters, waiter{c, c.kind(i), c.limit(i), i}), t
	}
	for _, p := range s.partitions {
		p.listener.start()
	}
	for i, t := range c.topics {
		for n := range t.in {
			if of := &t.in[n]; !of.isEmpty(c.kind(i)) {
				of.goOn()
			}
		}
	}
	for _, p := range s.partitions {
		p.batches.Wake()
	}
}

// answer waits for the caller's answer. Unless a poll for it is in flight, it leaves at once when ctx ends, the time is over, or the Client closes.
func (c *Caller) answer(ctx context.Context, over <-chan time.Time) answer {
	var why error
	select {
	case a := <-c.answers:
		return a
	case <-ctx.Done():
		why = ctx.Err()
	case <-c.shared.closing.Done():
		why = c.shared.owner.Closed
	case <-over:
		why = store.ErrEmpty
	}
	c.shared.mu.Lock()
	c.end(Jobs{}, why)
	c.shared.mu.Unlock()
	return <-c.answers
}

// end gives the caller its answer, unless it has one. A poll in flight for it comes first.
func (c *Caller) end(got Jobs, err error) {
	switch {
	case !c.isOpen:
		return
	case c.isClaimed:
		c.leaving = cmp.Or(c.leaving, err)
		return
	}
	c.isOpen, c.leaving = false, nil
	if c.in != nil {
		c.in.callers = slices.DeleteFunc(c.in.callers, func(o *Caller) bool { return o == c })
		c.in = nil
	}
	topics := c.topics
	c.topics = nil
	for _, t := range topics {
		if t.waiters = slices.DeleteFunc(t.waiters, func(w waiter) bool { return w.Caller == c }); len(t.waiters) == 0 {
			t.left = time.Now()
			t.retire()
		}
	}
	switch {
	case err == store.ErrEmpty:
		err = cmp.Or(c.lost, c.lastErr, err)
	case err != nil && c.lost != nil && err != c.lost:
		err = fmt.Errorf("%w; before that: %w", err, c.lost)
	}
	c.answers <- answer{got, err}
}

// without ends the claim of a poll that brought the caller nothing. It reports whether the caller must be polled for again.
func (c *Caller) without(isEmpty bool, err error) (again bool) {
	switch why := c.leaving; {
	case why == store.ErrEmpty && err != nil:
		c.end(Jobs{}, err)
	case why != nil && errors.Is(err, ErrLost):
		c.end(Jobs{}, fmt.Errorf("%w; %w", why, err))
	case why != nil:
		c.end(Jobs{}, why)
	case c.topics == nil && (isEmpty || err != nil):
		c.end(Jobs{}, err)
	case c.topics == nil:
		return true
	case err != nil:
		c.retry(err)
		c.goOn()
	default:
		if c.lastErr != nil && !c.isAnyAway() {
			c.recovered()
		}
		c.goOn()
	}
	return false
}

// isAnyAway reports whether a partition that it waits for does not respond.
func (c *Caller) isAnyAway() bool {
	return slices.ContainsFunc(c.shared.partitions, func(p *Partition) bool { return p.isAway })
}

// goOn polls for a caller that waits if any of its topics has got a hint while it was claimed.
func (c *Caller) goOn() {
	for _, t := range c.topics {
		for n := range t.in {
			if of := &t.in[n]; of.jobs > 0 {
				of.goOn()
				of.partition.batches.Wake() // the poll was of another partition
			}
		}
	}
}

// retry takes in an error of a caller that waits. It tolerates a temporary one: for the retry window if no partition answers, and as long as it waits if
// some do. The listener checks its topics.
func (c *Caller) retry(err error) {
	now := time.Now()
	if c.failing.IsZero() {
		c.failing = now
	}
	if c.lastErr = err; errors.Is(err, ErrLost) {
		c.lost = err
	}
	isAnyHere := slices.ContainsFunc(c.shared.partitions, func(p *Partition) bool { return !p.isAway })
	if !store.Temporary(err) || !isAnyHere && now.Sub(c.failing) >= RetryWindow {
		c.end(Jobs{}, err)
	}
}

// recovered takes in that Redis answers.
func (c *Caller) recovered() { c.lastErr, c.failing = nil, time.Time{} }
