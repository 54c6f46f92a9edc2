package wait

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// retryWindow is for how long a caller who waits bears it that Redis is away.
const retryWindow = 3 * time.Second

// caller is somebody who wants a job, or several.
type caller struct {
	Request
	positions []position  // in the queues of its topics; nil once it has its answer
	pending   []*position // in their order, whose queues are to be asked whether there is a job
	asked     asked       // how far that has come, where there are several partitions
	aimed     bool        // it asks one partition, and has positions only there: see Dispatcher.aim
	comesBack bool        // more jobs remain than it wants, so it does not register as a waiter: see Dispatcher.aim
	probes    int         // of its queues, under way
	pollErr   error       // why one of the queues could not be asked
	joined    time.Time
	queued    bool         // to ask several queues
	claimed   bool         // a poll is under way for it
	leaving   error        // why it wanted to leave while it was claimed
	lastErr   error        // why it is not known whether there is a job
	failing   time.Time    // since when there have been errors; zero if there are none
	lost      error        // of a pop that may have taken a job, which did not arrive
	answer    func(answer) // gives the caller its answer, once, and does not wait
}

type answer struct {
	Jobs
	err error
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
	c.answer(answer{got, err})
}

// leaveQueues polls the caller out of all queues.
func (c *caller) leaveQueues() {
	if c.aimed {
		delete(c.dispatcher().aimed, c)
	}
	c.aimed, c.asked = false, nothing
	positions := c.positions
	c.positions = nil
	c.stopPolling()
	for i := range positions {
		positions[i].leave()
	}
}

// isFree reports whether no poll is under way for a caller who has no answer yet.
func (c *caller) isFree() bool { return c.positions != nil && !c.claimed }

// isFreeFor reports whether a poll of the queue may claim the caller. One who finds out in which order its queues are to be
// asked is not free for any.
func (c *caller) isFreeFor(l *waitQueue) bool {
	return c.isFree() && (c.asked == nothing || len(c.pending) == 0 || !c.pollsAlone())
}

// waits reports whether the caller waits for jobs, and for no answer.
func (c *caller) waits() bool { return c.isFree() && len(c.pending) == 0 }

// dispatcher is whose caller it is, while it has no answer.
func (c *caller) dispatcher() *Dispatcher { return c.positions[0].queue.partition.dispatcher }

// pollsAlone reports whether the caller is one of several topics: only if it asks for itself their order is kept.
func (c *caller) pollsAlone() bool {
	return c.aimed || len(c.positions) > len(c.dispatcher().partitions)
}

// pollAll has all positions asked that are not known to be empty for the caller.
func (c *caller) pollAll() {
	for i := range c.positions {
		if p := &c.positions[i]; !c.Waits || !p.queue.entered && (p.queue.held == nil || !p.kind().Reserves) {
			p.asks = true
			c.pending = append(c.pending, p)
		}
	}
}

func (c *caller) stopPolling() {
	for _, p := range c.pending {
		p.asks = false
	}
	c.pending, c.pollErr = nil, nil
}

// asked is what a caller has asked already.
type asked int

const (
	nothing asked = iota
	one           // a queue
	all           // queues, by probes
)

// ask has Redis asked for jobs. A caller of one topic asks together with the others in its queue. Of several partitions
// it asks one, as there is often a job, and then checks at the others at a time.
//
// One of several topics asks for itself. Of several partitions it checks at all first, unless it is aimed, lest it get a job of a later topic
// although another partition has one of an earlier topic.
func (c *caller) poll() {
	several := len(c.dispatcher().partitions) > 1
	switch {
	case len(c.pending) == 0 || c.queued || c.probes > 0 || c.claimed && c.pollsAlone():
	case c.pollsAlone() && (!several || c.asked == all):
		c.queued = true
		c.pending[0].queue.partition.enqueue(c)
	case !c.pollsAlone() && c.asked == nothing:
		c.asked = one
		c.pending[0].poll()
	case c.asked != all:
		c.asked = all
		c.probe()
	}
}

func (c *caller) isDue() bool { return c.isFree() && len(c.pending) > 0 }

func (c *caller) at() *partition { return c.pending[0].queue.partition }

func (c *caller) dequeued() { c.queued = false }

// newPoll claims the caller for a poll of its next topics that are of one store and taken in one way.
func (c *caller) newPoll() *poll {
	first := c.pending[0]
	t := &poll{partition: first.queue.partition, Kind: first.kind(), multi: c}
	for _, p := range c.pending {
		if p.queue.partition != t.partition || p.kind() != t.Kind || len(t.queues) == maxQueues {
			break
		}
		t.add(p.queue, p.limit())
	}
	t.claim(c, c.N)
	c.dispatcher().turn++
	return t
}

// found enters that the position's queue has no job for the caller, or why that is not known.
func (p *position) found(err error) {
	p.asks = false
	p.caller.pollErr = cmp.Or(p.caller.pollErr, err)
}

// pollNext has the caller go on once queues that it asked were empty, unless it has its answer.
func (c *caller) pollNext() {
	c.pending = slices.DeleteFunc(c.pending, func(p *position) bool { return !p.asks })
	switch {
	case c.positions == nil:
	case len(c.pending) > 0:
		c.poll()
	case c.aimed || c.comesBack:
		c.dispatcher().missed(c, nil)
	case c.pollErr != nil:
		c.failed(c.pollErr)
	default:
		c.recovered()
		c.wait(store.ErrEmpty)
	}
}

// wait has the caller wait or, if it does not want to, end.
func (c *caller) wait(otherwise error) {
	if !c.Waits {
		c.end(Jobs{}, otherwise)
		return
	}
	t := c.dispatcher()
	t.regroup()
	for _, n := range t.nodes {
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

// failed tells the caller that it could not be asked for a job. One who waits bears what may
// pass, and that some nodes are away while others are not. What it has asked other queues is of no interest then: the listener checks at them all.
func (c *caller) failed(err error) {
	now := time.Now()
	c.stopPolling()
	if c.failing.IsZero() {
		c.failing = now
	}
	c.note(err)
	if !store.Temporary(err) || now.Sub(c.failing) >= retryWindow && c.dispatcher().isAllAway() {
		c.end(Jobs{}, err)
	} else {
		c.wait(err)
	}
}

// release ends the claim of a poll that has brought the caller these jobs.
func (c *caller) release(got Jobs, err error) {
	c.claimed = false
	switch {
	case len(got.Jobs) > 0:
		c.end(got, nil)
	case c.leaving == store.ErrEmpty && err != nil:
		c.end(Jobs{}, err)
	case c.leaving != nil && errors.Is(err, ErrLost):
		c.end(Jobs{}, fmt.Errorf("%w; %w", c.leaving, err))
	case c.leaving != nil:
		c.end(Jobs{}, c.leaving)
	case err != nil && len(c.pending) > 0 && !c.pollsAlone():
		c.note(err) // the others may have a job
	case err != nil && c.aimed:
		c.note(err)
		c.dispatcher().missed(c, err)
	case err != nil:
		c.failed(err)
	case c.pollsAlone():
		c.poll() // if it was to, and was claimed by another poll meanwhile
	}
}

// position is a caller's in a queue.
type position struct {
	caller     *caller
	queue      *waitQueue
	topic      int  // of the caller's
	asks       bool // the queue is to tell the caller whether there is a job
	prev, next *position
}

// poll has the queue asked, together with what others ask it.
func (p *position) poll() {
	p.queue.pending = append(p.queue.pending, p)
	p.queue.enqueue()
}

// kind is how the caller polls jobs of the queue.
func (p *position) kind() Kind { return p.caller.kind(p.topic) }

func (c *caller) kind(topic int) Kind {
	if c.Kinds == nil {
		return c.Kind
	}
	return c.Kinds[topic]
}

// limit is how many jobs of the queue the caller wants at most.
func (p *position) limit() int { return p.caller.limit(p.topic) }

func (c *caller) limit(topic int) int {
	if c.Limits == nil {
		return c.N
	}
	return min(c.Limits[topic], c.N)
}
