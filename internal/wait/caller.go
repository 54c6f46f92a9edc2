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

// RetryWindow is for how long a waiting call tolerates an outage.
const RetryWindow = 3 * time.Second

// caller is a call that wants one or more jobs, of one topic or of several.
type caller struct {
	Request
	topics    topics      // what depends on how many there are
	positions []position  // in the queues of its topics; nil once it has its answer
	pending   []*position // in their order, whose queues are to be polled whether there is a job
	probes    int         // of its queues, under way
	pollErr   error       // why one of the queues could not be polled
	joined    time.Time
	claimed   bool      // a poll is under way for it
	sorts     bool      // it finds out in which order its queues are to be polled: no poll of these may claim it while any are pending
	comesBack bool      // more jobs remain than it wants, so it does not register as a waiter: see Dispatcher.aim
	leaving   error     // why it wanted to leave while it was claimed
	lastErr   error     // why it is not known whether there is a job
	failing   time.Time // since when there have been errors; zero if there are none
	lost      error     // of a pop that may have taken a job, which did not arrive
	answers   chan answer
}

type answer struct {
	Jobs
	err error
}

// topics is what callers of one topic and of several do differently: oneTopic and severalTopics.
type topics interface {
	// poll has the pending queues polled.
	poll()
	// polled has the caller go on once all pending queues were polled, and brought it nothing.
	polled()
	// refused has it go on after a poll that failed, and freed after one that brought it nothing, and others something, or not.
	refused(err error)
	freed()
	// probed is told that all pending queues were probed.
	probed()
	// left ends what there is outside of the queues.
	left()
}

// position is a caller's in a queue.
type position struct {
	caller     *caller
	queue      *waitQueue
	topic      int  // of the caller's
	pending    bool // the caller is to be told whether the queue has a job
	prev, next *position
}

// newCaller makes the caller of a Request.
func newCaller(d *Dispatcher, r Request) *caller {
	c := caller{Request: r, lastErr: ErrNoAnswer, answers: make(chan answer, 1)}
	if !slices.ContainsFunc(r.Topics[1:], func(topic string) bool { return topic != r.Topics[0] }) {
		one := &oneTopic{caller: c}
		one.topics = one
		return &one.caller
	}
	several := &severalTopics{caller: c, dispatcher: d}
	several.topics = several
	return &several.caller
}

// Take gets as many jobs as are wanted and there. If there is none it waits for one, or, if the
// caller does not wait, fails with ErrEmpty.
func (d *Dispatcher) Take(ctx context.Context, r Request) (Jobs, error) {
	whole := ctx
	if r.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.Timeout)
		defer cancel()
	}
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
		d.leave(c, cmp.Or(whole.Err(), store.ErrEmpty))
	}
	a := <-c.answers
	return a.Jobs, a.err
}

// join puts the caller into the queues of its topics: of a partition that is believed to have jobs, or of each. Those of which it is not known
// that they are empty are polled. If it returns a func, the caller has to call that, which polls; else others do.
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
		return nil, nil
	}
	first := c.pending[0].queue
	shares := several == nil && (first.queued || first.state == polling)
	if len(c.positions) == 1 && several == nil {
		first.ask(c.pending[0])
	} else {
		c.topics.poll()
	}
	if shares { // whoever polls for those ahead goes on with this one
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

// joinAll puts the caller into the queues of its topics, of each partition. Those are pending that are not known to be empty for it.
func (d *Dispatcher) joinAll(c *caller) {
	partitions := d.partitions
	if len(partitions) > 1 {
		partitions = d.inTurn()
	}
	c.positions = make([]position, 0, len(partitions)*len(c.Topics)) // queues point into it
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

// inTurn are all partitions in the order in which they are to be polled now: that whose turn it is first, and last those of
// nodes that are shunned.
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

// leave ends the caller's wait: at once, or with the answer of the poll that is under way for it.
func (d *Dispatcher) leave(c *caller, why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c.end(Jobs{}, why)
}

// end gives the caller its answer, unless it has one. A poll under way for it comes first.
func (c *caller) end(got Jobs, err error) {
	switch {
	case c.positions == nil:
		return
	case c.claimed:
		c.leaving = cmp.Or(c.leaving, err)
		return
	}
	c.leaveQueues()
	if err == store.ErrEmpty {
		err = cmp.Or(c.lost, c.lastErr, err)
	} else if err != nil && c.lost != nil && err != c.lost {
		err = fmt.Errorf("%w; before that: %w", err, c.lost)
	}
	c.answers <- answer{got, err}
}

// leaveQueues takes the caller out of all queues.
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

// isFree reports whether no poll is under way for a caller who has no answer yet.
func (c *caller) isFree() bool { return c.positions != nil && !c.claimed }

// waits reports whether the caller is idle: no poll is in flight, or to be sent, for it.
func (c *caller) waits() bool { return c.isFree() && len(c.pending) == 0 }

// dispatcher is whose caller it is, while it has no answer.
func (c *caller) dispatcher() *Dispatcher { return c.positions[0].queue.partition.dispatcher }

// stopPolling leaves it open whether the pending queues have jobs.
func (c *caller) stopPolling() {
	for _, p := range c.pending {
		p.pending = false
	}
	c.pending, c.pollErr = nil, nil
}

// answered notes that the position's queue has no job for the caller, or why that is not known.
func (p *position) answered(err error) {
	p.pending = false
	p.caller.pollErr = cmp.Or(p.caller.pollErr, err)
}

// pollNext has the caller go on once queues that it polled were empty, unless it has its answer.
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

// foundNothing has the caller wait after all of its queues were polled, or says why one could not be.
func (c *caller) foundNothing() {
	if c.pollErr != nil {
		c.retry(c.pollErr)
		return
	}
	c.recovered()
	c.wait(store.ErrEmpty)
}

// wait has the caller wait or, if it does not want to, end.
func (c *caller) wait(otherwise error) {
	if !c.Waits {
		c.end(Jobs{}, otherwise)
		return
	}
	d := c.dispatcher()
	d.regroup()
	for _, n := range d.nodes {
		n.listener.start()
	}
}

// recovered tells the caller that Redis answers.
func (c *caller) recovered() { c.lastErr, c.failing = nil, time.Time{} }

// note keeps an error for the end.
func (c *caller) note(err error) {
	c.lastErr = err
	if errors.Is(err, ErrLost) {
		c.lost = err
	}
}

// retry tells the caller that a poll for it has failed. A waiting caller tolerates an error that may pass, for the retry window if no node
// answers and for as long as it waits if some do. It polls no more queues then: the listener checks them all.
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

// release ends the claim of a poll that has brought the caller nothing.
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

// oneTopic is a caller of one topic. It shares polls with the others in its queue. Of several partitions it polls
// one, as there is often a job, and then probes the others at a time.
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
