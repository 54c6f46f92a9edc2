package take

import (
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// line queues the callers that want jobs of a topic, with what is known of its ready queue: see the package.
type line struct {
	source      *source
	topic       string
	first, last *place // of the callers, in the order in which they came
	callers     int
	asking      []*place // of callers of this topic alone, who are to be told whether there is a job
	ready       int      // how many jobs are believed to be there
	wakes       int      // counts what made us believe so
	entered     bool
	enteredAt   time.Time
	woken       bool      // Redis woke only us: if nobody here takes the job, the wake-up is passed on
	queued      bool      // to be asked
	busy        bool      // a take is under way: one at a time keeps the callers' order
	blocked     bool      // all its callers are claimed by takes of other lines
	held        *hold     // the topic's limit holds it back; nil if not
	byLook      bool      // ready since a look, and not since a message
	left        time.Time // when the last caller left
}

// push puts the caller behind the others. A topic that it names twice counts once.
func (l *line) push(c *caller, topic int) {
	if l.last != nil && l.last.caller == c {
		return
	}
	c.places = append(c.places, place{caller: c, line: l, topic: topic, prev: l.last})
	p := &c.places[len(c.places)-1]
	if l.last == nil {
		l.first = p
	} else {
		l.last.next = p
	}
	l.last = p
	l.callers++
}

// leave takes the place out of its line.
func (p *place) leave() {
	l := p.line
	if p.prev == nil {
		l.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		l.last = p.prev
	} else {
		p.next.prev = p.prev
	}
	if l.callers--; l.callers == 0 {
		l.retire()
	}
}

// enqueue has the line asked if somebody wants it to be.
func (l *line) enqueue() {
	if !l.busy && l.callers > 0 && (l.ready > 0 || l.isAsked()) {
		l.requeue()
	}
}

// requeue has the line asked if somebody wants it to be when its turn comes: those who were served
// may have come again by then, and go together.
func (l *line) requeue() {
	if !l.queued {
		l.queued = true
		l.source.enqueue(l)
	}
}

// isAsked reports whether anybody asks; those who don't any more are forgotten.
func (l *line) isAsked() bool {
	for len(l.asking) > 0 && !l.asking[0].asks {
		l.asking = l.asking[1:]
	}
	return len(l.asking) > 0
}

// isDue reports whether the line can be asked now. If all its callers are claimed, it can be later; and so it can if
// the topic's line of another partition is asked now: those who come meanwhile go together.
func (l *line) isDue() bool {
	if l.callers == 0 || l.ready == 0 && !l.isAsked() {
		return false
	}
	if l.held != nil && l.firstFree() == nil { // it goes on when the hold ends
		return false
	}
	if l.firstFree() != nil && (l.ready > 0 || l.source.taker.asking[l.topic] == 0) {
		return true
	}
	if !l.blocked {
		l.blocked = true
		l.source.taker.blocked = append(l.source.taker.blocked, l)
	}
	return false
}

func (l *line) at() *source { return l.source }

func (l *line) dequeued() {
	if l.queued = false; l.callers == 0 {
		l.retire()
	}
}

// isFree reports whether a take of the line may claim the place's caller. Limits are for those who reserve: who pops is not held back.
func (p *place) isFree() bool {
	return p.caller.isFreeFor(p.line) && (p.line.held == nil || !p.kind().Reserves)
}

// firstFree is the first place whose caller no take is under way for, if there is one.
func (l *line) firstFree() *place {
	p := l.first
	for p != nil && !p.isFree() {
		p = p.next
	}
	return p
}

// newTake claims the first callers of the line who take jobs in one way: as many as jobs are believed to be
// there or, if somebody asks, as one take can serve.
func (l *line) newTake() *take {
	wanted := min(l.ready, store.MaxPop)
	if l.isAsked() {
		wanted = store.MaxPop
	}
	first := l.firstFree()
	t := &take{source: l.source, Kind: first.kind(), asking: l.asking}
	for p := first; p != nil && t.n < wanted; p = p.next {
		if p.isFree() && p.kind() == t.Kind {
			t.claim(p.caller, p.limit())
		}
	}
	t.n = min(t.n, store.MaxPop)
	t.add(l, t.n)
	if len(l.asking) > 0 {
		l.source.taker.asking[l.topic]++
		l.source.taker.turn++
	}
	l.asking, l.busy = nil, true
	return t
}

// wake enters that the queue has about so many jobs. told says that we alone were woken for them.
func (l *line) wake(jobs int, told bool) {
	l.entered = false
	l.unhold()
	l.wakes++
	l.ready = max(l.ready, jobs)
	l.woken = l.woken || told
	l.byLook = l.byLook && !told
	if l.callers == 0 {
		l.retire()
	} else {
		l.enqueue()
	}
}

// retire ends the turn of a line without callers. A job that we alone were told of is for others then.
func (l *line) retire() {
	if l.busy {
		return
	}
	l.ready, l.asking = 0, nil
	if l.woken {
		l.woken = false
		l.source.passOn(l.topic)
	}
	l.left = time.Now()
	if !l.entered && l.held == nil && !l.queued && l.source.lines[l.topic] == l { // else it was forgotten before, and there is a new one
		delete(l.source.lines, l.topic)
	}
}

// learn enters what a take of the line has brought that asked for so many jobs, how many are left in
// the queue (-1 is not known), and whether we are entered. What we were told since it was sent is newer.
func (l *line) learn(asked, got, left int, entered, more bool, err error, wakes int) (isEmpty bool) {
	isEmpty = err == nil && got < asked && !more
	if err == nil {
		l.woken = l.woken && l.wakes != wakes
	}
	if got > 0 && l.byLook {
		l.source.listener.lastHit = time.Now()
	}
	l.byLook = false
	if l.wakes == wakes {
		l.ready = max(left, 0)
		if more {
			l.ready = max(left, 1)
		}
		if l.entered = err == nil && entered && left == 0 && !more; l.entered {
			l.enteredAt = time.Now()
		}
	}
	return isEmpty
}
