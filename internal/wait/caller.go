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

// caller is a call that wants one or more jobs, of one topic or of several.
type caller struct {
	Request
	topics    topics      // what callers of one and of several topics do differently
	positions []position  // in the queues of its topics; nil once it has its answer
	pending   []*position // in order: the queues to be polled for it
	probes    int         // of its queues, in flight
	pollErr   error       // why a queue could not be polled
	joined    time.Time
	claimed   bool        // a poll for it is in flight
	sorts     bool        // it is finding the order of its queues: no poll of a single queue may claim it while any are pending
	comesBack bool        // more jobs remain than it wants, so it does not register: see Dispatcher.aim
	leaving   error       // why it wants to leave, if it is claimed
	lastErr   error       // why we do not know whether there is a job
	failing   time.Time   // when errors began; zero if there are none
	lost      error       // a pop whose reply was lost, perhaps with a job
	expiry    *time.Timer // ends the wait; nil before the first poll of the queues is complete
	answers   chan answer
}

type answer struct {
	Jobs
	err error
}

// topics is what callers of one topic (oneTopic) and of several (severalTopics) do differently.
type topics interface {
	// poll polls the pending queues.
	poll()
	// polled continues after all pending queues were polled and brought nothing.
	polled()
	// refused continues after a failed poll, freed after one that brought this caller nothing.
	refused(err error)
	freed()
	// probed continues after all pending queues were probed.
	probed()
	// left cleans up outside the queues.
	left()
}

// position is a caller's position in a queue.
type position struct {
	caller     *caller
	queue      *waitQueue
	topic      int  // index among the caller's topics
	pending    bool // the caller waits to learn whether the queue has a job
	prev, next *position
}

func newCaller(d *Dispatcher, r Request) *caller {
	c := caller{Request: r, answers: make(chan answer, 1)}
	if !slices.ContainsFunc(r.Topics[1:], func(topic string) bool { return topic != r.Topics[0] }) {
		one := &oneTopic{caller: c}
		one.topics = one
		return &one.caller
	}
	several := &severalTopics{caller: c, dispatcher: d}
	several.topics = several
	return &several.caller
}

// Take gets up to as many jobs as wanted. Without any it waits for one until the timeout ends, or returns ErrEmpty at
// once if the caller does not wait.
func (d *Dispatcher) Take(ctx context.Context, r Request) (Jobs, error) {
	c := newCaller(d, r)
	lead, err := d.join(c)
	if err != nil {
		return Jobs{}, err
	}
	if lead != nil {
		lead(ctx)
	}
	select {
	case a := <-c.answers:
		return a.Jobs, a.err
	case <-ctx.Done():
		d.leave(c, ctx.Err())
	}
	a := <-c.answers
	return a.Jobs, a.err
}

// join puts the caller into the queues of its topics: in a partition that probably has jobs, or in all. Polls every queue that is not
// known to be empty. If it returns a function, the caller must call it to poll; otherwise another goroutine polls.
func (d *Dispatcher) join(c *caller) (lead func(context.Context), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, d.owner.Closed
	}
	if d.inCluster {
		d.regroup()
	}
	c.joined = time.Now()
	several, _ := c.topics.(*severalTopics)
	if several == nil || !d.aim(several) {
		d.joinAll(c)
	}
	if len(c.pending) == 0 {
		c.recovered()
		c.startTimeout()
		return nil, nil
	}
	first := c.pending[0].queue
	shares := several == nil && (first.queued || first.state == polling)
	if len(c.positions) == 1 && several == nil {
		first.ask(c.pending[0])
	} else {
		c.topics.poll()
	}
	if shares { // the goroutine that polls for callers ahead also serves this one
		return nil, nil
	}
	for _, n := range d.nodes {
		if lead == nil && n.Waiting() && n.batches.TryLead() {
			lead = n.batches.Lead
		} else {
			n.batches.Wake()
		}
	}
	return lead, nil
}

// joinAll puts the caller into the queues of its topics in all partitions. Queues not known to be empty for it are pending.
func (d *Dispatcher) joinAll(c *caller) {
	partitions := d.partitions
	if len(partitions) > 1 {
		partitions = d.inTurn()
	}
	c.positions = make([]position, 0, len(partitions)*len(c.Topics)) // queues point into this slice
	for i, topic := range c.Topics {
		for _, s := range partitions {
			s.queue(topic).push(c, i)
		}
	}
	for i := range c.positions {
		if p := &c.positions[i]; !c.Waits || p.queue.state != registered && (p.queue.throttle == nil || !c.kind(p.topic).Reserves) {
			p.pending = true
			c.pending = append(c.pending, p)
		}
	}
}

// inTurn returns all partitions in the order to poll them now: the one whose turn it is first, those of
// shunned nodes last.
func (d *Dispatcher) inTurn() (order []*partition) {
	now := time.Now()
	for _, shunned := range [...]bool{false, true} {
		for k := range d.partitions {
			if s := d.partitions[(d.turn+k)%len(d.partitions)]; now.Before(s.shunned) == shunned {
				order = append(order, s)
			}
		}
	}
	return order
}

// leave ends the caller's wait: at once, or with the reply to the poll in flight for it.
func (d *Dispatcher) leave(c *caller, why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c.end(Jobs{}, why)
}

// end gives the caller its answer, unless it has one. A poll in flight for it comes first.
func (c *caller) end(got Jobs, err error) {
	switch {
	case c.positions == nil:
		return
	case c.claimed:
		c.leaving = cmp.Or(c.leaving, err)
		return
	}
	c.leaveQueues()
	if c.expiry != nil {
		c.expiry.Stop()
	}
	if err == store.ErrEmpty {
		err = cmp.Or(c.lost, c.lastErr, err)
	} else if err != nil && c.lost != nil && err != c.lost {
		err = fmt.Errorf("%w; before that: %w", err, c.lost)
	}
	c.answers <- answer{got, err}
}

func (c *caller) leaveQueues() {
	c.topics.left()
	positions := c.positions
	c.positions, c.pending, c.pollErr = nil, nil, nil
	for i := range positions {
		p := &positions[i]
		p.pending = false
		if p.prev == nil {
			p.queue.first = p.next
		} else {
			p.prev.next = p.next
		}
		if p.next == nil {
			p.queue.last = p.prev
		} else {
			p.next.prev = p.prev
		}
		if p.queue.callers--; p.queue.callers == 0 {
			p.queue.retire()
		}
	}
}

// isFree reports whether the caller has no answer yet and no poll for it is in flight.
func (c *caller) isFree() bool { return c.positions != nil && !c.claimed }

// waits reports whether the caller is idle: no poll is in flight, or to be sent, for it.
func (c *caller) waits() bool { return c.isFree() && len(c.pending) == 0 }

func (c *caller) dispatcher() *Dispatcher { return c.positions[0].queue.partition.dispatcher }

// stopPolling gives up on the pending queues.
func (c *caller) stopPolling() {
	for _, p := range c.pending {
		p.pending = false
	}
	c.pending, c.pollErr = nil, nil
}

// answered records that the position's queue has no job for the caller, or why that is unknown.
func (p *position) answered(err error) {
	p.pending = false
	p.caller.pollErr = cmp.Or(p.caller.pollErr, err)
}

// pollNext continues after some of its queues were empty, unless the caller has its answer.
func (c *caller) pollNext() {
	c.pending = slices.DeleteFunc(c.pending, func(p *position) bool { return !p.pending })
	switch {
	case c.positions == nil:
	case len(c.pending) > 0:
		c.topics.poll()
	default:
		c.topics.polled()
	}
}

// foundNothing makes the caller wait after all its queues were empty, or handles the error of one.
func (c *caller) foundNothing() {
	if c.pollErr != nil {
		c.retry(c.pollErr)
		return
	}
	c.recovered()
	c.wait(store.ErrEmpty)
}

// wait makes the caller wait, or ends it if it does not wait.
func (c *caller) wait(otherwise error) {
	if !c.Waits {
		c.end(Jobs{}, otherwise)
		return
	}
	c.startTimeout()
	d := c.dispatcher()
	d.regroup()
	for _, n := range d.nodes {
		n.listener.start()
	}
}

// startTimeout starts the caller's timeout once the first poll of its queues is complete: it bounds the wait for a job, not how
// long Redis takes to say whether there is one.
func (c *caller) startTimeout() {
	if c.Timeout > 0 && c.expiry == nil {
		d := c.dispatcher()
		c.expiry = time.AfterFunc(c.Timeout, func() { d.leave(c, store.ErrEmpty) })
	}
}

// recovered records that Redis answers.
func (c *caller) recovered() { c.lastErr, c.failing = nil, time.Time{} }

func (c *caller) note(err error) {
	c.lastErr = err
	if errors.Is(err, ErrLost) {
		c.lost = err
	}
}

// retry handles a failed poll for the caller. A waiting caller tolerates a temporary error: for the retry window if no node
// answers, and as long as it waits if some do. It stops polling; the listener checks its queues.
func (c *caller) retry(err error) {
	now := time.Now()
	c.stopPolling()
	if c.failing.IsZero() {
		c.failing = now
	}
	c.note(err)
	if !store.Temporary(err) || now.Sub(c.failing) >= RetryWindow && c.dispatcher().isAllAway() {
		c.end(Jobs{}, err)
	} else {
		c.wait(err)
	}
}

// release ends the claim of a poll that brought the caller nothing.
func (c *caller) release(err error) {
	c.claimed = false
	switch {
	case c.leaving == store.ErrEmpty && err != nil:
		c.end(Jobs{}, err)
	case c.leaving != nil && errors.Is(err, ErrLost):
		c.end(Jobs{}, fmt.Errorf("%w; %w", c.leaving, err))
	case c.leaving != nil:
		c.end(Jobs{}, c.leaving)
	case err != nil:
		c.topics.refused(err)
	default:
		c.topics.freed()
	}
}

// oneTopic is a caller of one topic. It shares polls with the others in its queue. With several partitions it polls
// one, which often has a job, and then probes the others together.
type oneTopic struct {
	caller
	hasPolled, hasProbed bool
}

func (c *oneTopic) poll() {
	switch {
	case len(c.pending) == 0 || c.probes > 0:
	case !c.hasPolled:
		c.hasPolled = true
		c.pending[0].queue.ask(c.pending[0])
	case !c.hasProbed:
		c.hasProbed = true
		c.probe()
	}
}

func (c *oneTopic) polled() { c.foundNothing() }

func (c *oneTopic) refused(err error) {
	if len(c.pending) > 0 {
		c.note(err) // the others may have a job
	} else {
		c.retry(err)
	}
}

func (c *oneTopic) freed()  {}
func (c *oneTopic) probed() { c.pollNext() }
func (c *oneTopic) left()   {}
