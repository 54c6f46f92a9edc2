package take

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// rideOut is for how long a caller who waits bears it that Redis is away.
const rideOut = 3 * time.Second

// caller is somebody who wants a job, or several.
type caller struct {
	Request
	places    []place  // in the lines of its topics; nil once it has its answer
	toAsk     []*place // in their order, whose lines are to be asked whether there is a job
	asked     asked    // how far that has come, where there are several sources
	aimed     bool     // it asks one source, and has places only there: see Taker.aim
	comesBack bool     // more jobs remain than it wants, so it does not register as a waiter: see Taker.aim
	surveys   int      // of its lines, under way
	askErr    error    // why one of the lines could not be asked
	joined    time.Time
	queued    bool         // to ask several lines
	claimed   bool         // a take is under way for it
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

// end gives the caller its answer, unless it has one. A take under way for it comes first.
func (c *caller) end(got Jobs, err error) {
	switch {
	case c.places == nil:
		return
	case c.claimed:
		c.leaving = cmp.Or(c.leaving, err)
		return
	}
	c.leaveLines()
	if err == store.ErrEmpty {
		err = cmp.Or(c.lost, c.lastErr, err)
	} else if err != nil && c.lost != nil && err != c.lost {
		err = fmt.Errorf("%w; before that: %w", err, c.lost)
	}
	c.answer(answer{got, err})
}

// leaveLines takes the caller out of all lines.
func (c *caller) leaveLines() {
	if c.aimed {
		delete(c.taker().aimed, c)
	}
	c.aimed, c.asked = false, nothing
	places := c.places
	c.places = nil
	c.askNoMore()
	for i := range places {
		places[i].leave()
	}
}

// isFree reports whether no take is under way for a caller who has no answer yet.
func (c *caller) isFree() bool { return c.places != nil && !c.claimed }

// isFreeFor reports whether a take of the line may claim the caller. One who finds out in which order its lines are to be
// asked is not free for any.
func (c *caller) isFreeFor(l *line) bool {
	return c.isFree() && (c.asked == nothing || len(c.toAsk) == 0 || !c.asksAlone())
}

// waits reports whether the caller waits for jobs, and for no answer.
func (c *caller) waits() bool { return c.isFree() && len(c.toAsk) == 0 }

// taker is whose caller it is, while it has no answer.
func (c *caller) taker() *Taker { return c.places[0].line.source.taker }

// asksAlone reports whether the caller is one of several topics: only if it asks for itself their order is kept.
func (c *caller) asksAlone() bool { return c.aimed || len(c.places) > len(c.taker().sources) }

// toAskAll has all places asked that are not known to be empty for the caller.
func (c *caller) toAskAll() {
	for i := range c.places {
		if p := &c.places[i]; !c.Waits || !p.line.entered && (p.line.held == nil || !p.kind().Reserves) {
			p.asks = true
			c.toAsk = append(c.toAsk, p)
		}
	}
}

func (c *caller) askNoMore() {
	for _, p := range c.toAsk {
		p.asks = false
	}
	c.toAsk, c.askErr = nil, nil
}

// asked is what a caller has asked already.
type asked int

const (
	nothing asked = iota
	one           // a line
	all           // lines, by surveys
)

// ask has Redis asked for jobs. A caller of one topic asks together with the others in its line. Of several sources
// it asks one, as there is often a job, and then looks at the others at a time.
//
// One of several topics asks for itself. Of several sources it looks at all first, unless it is aimed, lest it get a job of a later topic
// although another source has one of an earlier topic.
func (c *caller) ask() {
	several := len(c.taker().sources) > 1
	switch {
	case len(c.toAsk) == 0 || c.queued || c.surveys > 0 || c.claimed && c.asksAlone():
	case c.asksAlone() && (!several || c.asked == all):
		c.queued = true
		c.toAsk[0].line.source.enqueue(c)
	case !c.asksAlone() && c.asked == nothing:
		c.asked = one
		c.toAsk[0].askLine()
	case c.asked != all:
		c.asked = all
		c.survey()
	}
}

func (c *caller) isDue() bool { return c.isFree() && len(c.toAsk) > 0 }

func (c *caller) at() *source { return c.toAsk[0].line.source }

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
	c.taker().turn++
	return t
}

// found enters that the place's line has no job for the caller, or why that is not known.
func (p *place) found(err error) {
	p.asks = false
	p.caller.askErr = cmp.Or(p.caller.askErr, err)
}

// askNext has the caller go on once lines that it asked were empty, unless it has its answer.
func (c *caller) askNext() {
	c.toAsk = slices.DeleteFunc(c.toAsk, func(p *place) bool { return !p.asks })
	switch {
	case c.places == nil:
	case len(c.toAsk) > 0:
		c.ask()
	case c.aimed || c.comesBack:
		c.taker().missed(c, nil)
	case c.askErr != nil:
		c.failed(c.askErr)
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
	t := c.taker()
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
// pass, and that some nodes are away while others are not. What it has asked other lines is of no interest then: the listener looks at them all.
func (c *caller) failed(err error) {
	now := time.Now()
	c.askNoMore()
	if c.failing.IsZero() {
		c.failing = now
	}
	c.note(err)
	if !store.Temporary(err) || now.Sub(c.failing) >= rideOut && c.taker().isAllAway() {
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
	case err != nil && len(c.toAsk) > 0 && !c.asksAlone():
		c.note(err) // the others may have a job
	case err != nil && c.aimed:
		c.note(err)
		c.taker().missed(c, err)
	case err != nil:
		c.failed(err)
	case c.asksAlone():
		c.ask() // if it was to, and was claimed by another take meanwhile
	}
}

// place is a caller's in a line.
type place struct {
	caller     *caller
	line       *line
	topic      int  // of the caller's
	asks       bool // the line is to tell the caller whether there is a job
	prev, next *place
}

// askLine has the line asked, together with what others ask it.
func (p *place) askLine() {
	p.line.asking = append(p.line.asking, p)
	p.line.enqueue()
}

// kind is how the caller takes jobs of the line.
func (p *place) kind() Kind { return p.caller.kind(p.topic) }

func (c *caller) kind(topic int) Kind {
	if c.Kinds == nil {
		return c.Kind
	}
	return c.Kinds[topic]
}

// limit is how many jobs of the line the caller wants at most.
func (p *place) limit() int { return p.caller.limit(p.topic) }

func (c *caller) limit(topic int) int {
	if c.Limits == nil {
		return c.N
	}
	return min(c.Limits[topic], c.N)
}
