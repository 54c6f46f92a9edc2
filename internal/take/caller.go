package take

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// rideOut is for how long a caller who waits bears it that Redis is away.
const rideOut = 3 * time.Second

// caller is somebody who wants a job, or several.
type caller struct {
	Request
	places  []place  // in the lines of its topics; nil once it has its answer
	toAsk   []*place // in their order, whose lines are to be asked whether there is a job
	joined  time.Time
	queued  bool         // to ask several lines
	claimed bool         // a take is under way for it
	leaving error        // why it wanted to leave while it was claimed
	lastErr error        // why it is not known whether there is a job
	failing time.Time    // since when there have been errors; zero if there are none
	lost    error        // of a pop that may have taken a job, which did not arrive
	answer  func(answer) // gives the caller its answer, once, and does not wait
}

type answer struct {
	Jobs
	err error
}

// end gives the caller its answer, unless it has one. A take under way for it comes first.
func (c *caller) end(got Jobs, err error) {
	switch {
	case c.places == nil:
		return
	case c.claimed:
		c.leaving = cmp.Or(c.leaving, err)
		return
	}
	places := c.places
	c.places, c.toAsk = nil, nil
	for i := range places {
		places[i].leave()
	}
	if err == store.ErrEmpty {
		err = cmp.Or(c.lost, c.lastErr, err)
	} else if err != nil && c.lost != nil && err != c.lost {
		err = fmt.Errorf("%w; before that: %w", err, c.lost)
	}
	c.answer(answer{got, err})
}

// isFree reports whether no take is under way for a caller who has no answer yet.
func (c *caller) isFree() bool { return c.places != nil && !c.claimed }

// waits reports whether the caller waits for jobs, and for no answer.
func (c *caller) waits() bool { return c.isFree() && len(c.toAsk) == 0 }

// ask has Redis asked for jobs. A caller of one topic asks together with the others in its line. One of several
// asks for itself, as only that keeps the order of its topics.
func (c *caller) ask() {
	if len(c.toAsk) == 1 && len(c.places) == 1 {
		l := c.toAsk[0].line
		l.asking = append(l.asking, c)
		l.enqueue()
	} else if len(c.toAsk) > 0 && !c.queued && c.isFree() {
		c.queued = true
		c.toAsk[0].line.source.enqueue(c)
	}
}

func (c *caller) isDue() bool { return c.isFree() && len(c.toAsk) > 0 }

func (c *caller) dequeued() { c.queued = false }

// newTake claims the caller for a take of its next topics that are of one store and taken in one way.
func (c *caller) newTake() *take {
	first := c.toAsk[0]
	t := &take{source: first.line.source, Kind: first.kind(), multi: c}
	for _, p := range c.toAsk {
		if p.line.source != t.source || p.kind() != t.Kind || len(t.lines) == maxLines {
			break
		}
		t.add(p.line, p.limit())
	}
	t.claim(c, c.N)
	return t
}

// askNext has the caller go on once lines that it askNext were empty, unless it has its answer.
func (c *caller) askNext() {
	switch {
	case c.places == nil:
	case len(c.toAsk) > 0:
		c.ask()
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
	for i := range c.places {
		c.places[i].line.source.listener.start()
	}
}

// recovered tells the caller that Redis answers.
func (c *caller) recovered() { c.lastErr, c.failing = nil, time.Time{} }

// failed tells the caller that it could not be asked for a job. One who waits bears what may
// pass. What it has asked other lines is of no interest then: the listener looks at them all.
func (c *caller) failed(err error) {
	now := time.Now()
	c.toAsk = nil
	if c.failing.IsZero() {
		c.failing = now
	}
	c.lastErr = err
	if errors.Is(err, ErrLost) {
		c.lost = err
	}
	if !store.Temporary(err) || now.Sub(c.failing) >= rideOut {
		c.end(Jobs{}, err)
	} else {
		c.wait(err)
	}
}

// release ends the claim of a take that has brought the caller these jobs.
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
	case err != nil:
		c.failed(err)
	case len(c.places) > 1:
		c.ask() // if it was to, and was claimed by another take meanwhile
	}
}

// place is a caller's in a line.
type place struct {
	caller     *caller
	line       *line
	topic      int // of the caller's
	prev, next *place
}

// kind is how the caller takes jobs of the line.
func (p *place) kind() Kind {
	if p.caller.Kinds == nil {
		return p.caller.Kind
	}
	return p.caller.Kinds[p.topic]
}

// limit is how many jobs of the line the caller wants at most.
func (p *place) limit() int {
	if p.caller.Limits == nil {
		return p.caller.N
	}
	return min(p.caller.Limits[p.topic], p.caller.N)
}
