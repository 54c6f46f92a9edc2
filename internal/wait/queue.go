package wait

import (
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// queue queues the callers that want jobs of a topic, with what is known of its ready queue: see the package.
type waitQueue struct {
	partition    *partition
	topic        string
	first, last  *position // of the callers, in the order in which they came
	callers      int
	pending      []*position // of callers of this topic alone, who are to be told whether there is a job
	ready        int         // how many jobs are believed to be there
	wakes        int         // counts what made us believe so
	entered      bool
	registeredAt time.Time
	woken        bool      // Redis woke only us: if nobody here polls the job, the wake-up is passed on
	queued       bool      // to be asked
	busy         bool      // a poll is under way: one at a time keeps the callers' order
	blocked      bool      // all its callers are claimed by polls of other queues
	held         *hold     // the topic's limit holds it back; nil if not
	byLook       bool      // ready since a check, and not since a message
	left         time.Time // when the last caller left
}

// push puts the caller behind the others. A topic that it names twice counts once.
func (l *waitQueue) push(c *caller, topic int) {
	if l.last != nil && l.last.caller == c {
		return
	}
	c.positions = append(c.positions, position{caller: c, queue: l, topic: topic, prev: l.last})
	p := &c.positions[len(c.positions)-1]
	if l.last == nil {
		l.first = p
	} else {
		l.last.next = p
	}
	l.last = p
	l.callers++
}

// leave polls the position out of its queue.
func (p *position) leave() {
	l := p.queue
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

// enqueue has the queue asked if somebody wants it to be.
func (l *waitQueue) enqueue() {
	if !l.busy && l.callers > 0 && (l.ready > 0 || l.isPending()) {
		l.requeue()
	}
}

// requeue has the queue asked if somebody wants it to be when its turn comes: those who were served
// may have come again by then, and go together.
func (l *waitQueue) requeue() {
	if !l.queued {
		l.queued = true
		l.partition.enqueue(l)
	}
}

// isPending reports whether anybody asks; those who don't any more are forgotten.
func (l *waitQueue) isPending() bool {
	for len(l.pending) > 0 && !l.pending[0].asks {
		l.pending = l.pending[1:]
	}
	return len(l.pending) > 0
}

// isDue reports whether the queue can be asked now. If all its callers are claimed, it can be later; and so it can if
// the topic's queue of another partition is asked now: those who come meanwhile go together.
func (l *waitQueue) isDue() bool {
	if l.callers == 0 || l.ready == 0 && !l.isPending() {
		return false
	}
	if l.held != nil && l.firstFree() == nil { // it goes on when the hold ends
		return false
	}
	if l.firstFree() != nil && (l.ready > 0 || l.partition.dispatcher.polling[l.topic] == 0) {
		return true
	}
	if !l.blocked {
		l.blocked = true
		l.partition.dispatcher.blocked = append(l.partition.dispatcher.blocked, l)
	}
	return false
}

func (l *waitQueue) at() *partition { return l.partition }

func (l *waitQueue) dequeued() {
	if l.queued = false; l.callers == 0 {
		l.retire()
	}
}

// isFree reports whether a poll of the queue may claim the position's caller. Limits are for those who reserve: who pops is not held back.
func (p *position) isFree() bool {
	return p.caller.isFreeFor(p.queue) && (p.queue.held == nil || !p.kind().Reserves)
}

// firstFree is the first position whose caller no poll is under way for, if there is one.
func (l *waitQueue) firstFree() *position {
	p := l.first
	for p != nil && !p.isFree() {
		p = p.next
	}
	return p
}

// newPoll claims the first callers of the queue who poll jobs in one way: as many as jobs are believed to be
// there or, if somebody asks, as one poll can serve.
func (l *waitQueue) newPoll() *poll {
	wanted := min(l.ready, store.MaxPop)
	if l.isPending() {
		wanted = store.MaxPop
	}
	first := l.firstFree()
	t := &poll{partition: l.partition, Kind: first.kind(), pending: l.pending}
	for p := first; p != nil && t.n < wanted; p = p.next {
		if p.isFree() && p.kind() == t.Kind {
			t.claim(p.caller, p.limit())
		}
	}
	t.n = min(t.n, store.MaxPop)
	t.add(l, t.n)
	if len(l.pending) > 0 {
		l.partition.dispatcher.polling[l.topic]++
		l.partition.dispatcher.turn++
	}
	l.pending, l.busy = nil, true
	return t
}

// wake enters that the queue has about so many jobs. told says that we alone were woken for them.
func (l *waitQueue) wake(jobs int, told bool) {
	l.entered = false
	l.unthrottle()
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

// retire ends the turn of a queue without callers. A job that we alone were told of is for others then.
func (l *waitQueue) retire() {
	if l.busy {
		return
	}
	l.ready, l.pending = 0, nil
	if l.woken {
		l.woken = false
		l.partition.passOn(l.topic)
	}
	l.left = time.Now()
	if !l.entered && l.held == nil && !l.queued && l.partition.queues[l.topic] == l { // else it was forgotten before, and there is a new one
		delete(l.partition.queues, l.topic)
	}
}

// learn enters what a poll of the queue has brought that asked for so many jobs, how many are left in
// the queue (-1 is not known), and whether we are entered. What we were told since it was sent is newer.
func (l *waitQueue) learn(asked, got, left int, entered, more bool, err error, wakes int) (isEmpty bool) {
	isEmpty = err == nil && got < asked && !more
	if err == nil {
		l.woken = l.woken && l.wakes != wakes
	}
	if got > 0 && l.byLook {
		l.partition.listener.lastHit = time.Now()
	}
	l.byLook = false
	if l.wakes == wakes {
		l.ready = max(left, 0)
		if more {
			l.ready = max(left, 1)
		}
		if l.entered = err == nil && entered && left == 0 && !more; l.entered {
			l.registeredAt = time.Now()
		}
	}
	return isEmpty
}
