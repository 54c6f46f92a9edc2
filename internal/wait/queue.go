package wait

import (
	"math/rand/v2"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// state is what we know about a topic's ready queue in a partition: see the package comment.
type state int

const (
	unknown state = iota
	ready
	polling
	registered
	throttled
)

type event int

const (
	sent      event = iota // a poll for the queue's callers was sent
	sentAmong              // a poll of several topics was sent
	left                   // a reply says how many jobs are left; 0 if perhaps none
	failed                 // a poll
	empty                  // a reply says that there are no jobs and that we are registered
	limited                // a reply says that the topic's limit is reached
	ended                  // the reply to the poll for the queue's callers was handled
	woken                  // Redis woke only us for jobs
	foundJobs              // a check found jobs
	expired                // the limit may allow more jobs now
	unheard                // we may no longer be registered
	abandoned              // the last caller has left
)

// waitQueue holds the callers that want jobs of a topic in a partition, and what we know about its ready queue.
type waitQueue struct {
	partition   *partition
	topic       string
	first, last *position // the callers in the order in which they came
	callers     int
	pending     []*position // callers of this topic alone that wait to learn whether there is a job
	queued      bool        // in the turns of its node
	blocked     bool        // polls of other queues have claimed all its callers
	left        time.Time   // when the last caller left

	// Only on changes the following fields.
	state        state
	next         state     // the state after the current poll
	jobs         int       // how many are probably there: when ready, or when throttled for callers that pop
	wakes        int       // counts the signs of new jobs
	told         bool      // Redis woke only us: if no caller here takes the job, we pass the wake-up on
	byCheck      bool      // it is ready because of a check, not of a message
	registeredAt time.Time // the last registration
	throttle     *throttle // of the throttled state; also set while it polls for callers that pop
}

// on is the only place where the state changes. While the queue is polling, events change the state that follows.
// n is the number of jobs, for left, woken, foundJobs, limited and expired.
func (q *waitQueue) on(e event, n int) {
	known := &q.state
	if q.state == polling {
		known = &q.next
	}
	before := *known
	switch e {
	case sent: // the reply will tell
		if q.next, q.jobs = unknown, 0; before == throttled {
			q.next = throttled
		}
		q.state, known = polling, &q.next
	case sentAmong:
		if before == registered { // a caller that joins now must poll: the reply on its way is older
			*known = unknown
		}
	case left, failed:
		q.jobs, q.byCheck, q.told = n, false, q.told && e == failed
		switch {
		case before == throttled:
		case n > 0:
			*known = ready
		default:
			*known = unknown
		}
	case empty:
		*known, q.jobs, q.byCheck, q.told, q.registeredAt = registered, 0, false, false, time.Now()
	case limited:
		*known, q.jobs, q.byCheck, q.told = throttled, n, false, false
	case ended:
		q.state, q.next, known = q.next, unknown, &q.state
	case woken, foundJobs:
		if e == foundJobs && before == throttled {
			break
		}
		*known, q.jobs = ready, max(q.jobs, n)
		q.wakes++
		q.told, q.byCheck = q.told || e == woken, e == foundJobs
	case expired:
		*known, q.jobs = ready, n
	case unheard:
		if before == registered || before == throttled && q.jobs == 0 {
			*known = unknown
		} else if before == throttled {
			*known = ready
		}
	case abandoned:
		if q.state == polling {
			break
		}
		if q.jobs, q.told = 0, false; before == ready {
			*known = unknown
		}
	}
	if q.throttle != nil && (before == throttled && *known != throttled || e == limited) {
		q.throttle.timer.Stop()
		q.throttle = nil
	}
}

// push appends the caller. A topic that it names twice counts once.
func (q *waitQueue) push(c *caller, topic int) {
	if q.last != nil && q.last.caller == c {
		return
	}
	c.positions = append(c.positions, position{caller: c, queue: q, topic: topic, prev: q.last})
	p := &c.positions[len(c.positions)-1]
	if q.last == nil {
		q.first = p
	} else {
		q.last.next = p
	}
	q.last = p
	q.callers++
}

// ask polls the queue for the position's caller, which will learn whether there is a job. Callers share such polls.
func (q *waitQueue) ask(p *position) {
	q.pending = append(q.pending, p)
	if q.state != polling {
		q.queueUp()
	}
}

// needsCheck reports whether the queue has callers, and the first of them is not about to probe it.
func (q *waitQueue) needsCheck() bool { return q.callers > 0 && !q.first.caller.isProbing() }

// goOn polls the queue if a caller needs it. If callers only wait, and we are not registered, a check follows soon.
func (q *waitQueue) goOn() {
	switch e := q.partition.listener; {
	case q.state == polling:
	case q.callers == 0:
		q.retire()
	case q.jobs > 0 || q.isPending():
		q.queueUp()
	case q.state == unknown && e.state == subscribed:
		e.signal()
	}
}

// queueUp polls the queue in its turn if a caller still needs it then. Callers that were just served
// may have come back by then and share the poll.
func (q *waitQueue) queueUp() {
	if !q.queued {
		q.queued = true
		q.partition.turns = append(q.partition.turns, q)
	}
}

// isPending reports whether a caller waits to learn whether there is a job. It drops those that have their answers.
func (q *waitQueue) isPending() bool {
	for len(q.pending) > 0 && !q.pending[0].pending {
		q.pending = q.pending[1:]
	}
	return len(q.pending) > 0
}

// isDue reports whether the queue can be polled now. It can be later if all its callers are claimed, or if
// the topic's queue in another partition is being polled: callers that come meanwhile share the next poll.
func (q *waitQueue) isDue() bool {
	if q.callers == 0 || q.jobs == 0 && !q.isPending() {
		return false
	}
	isFree := q.first.isFree() || q.firstFree() != nil
	switch {
	case isFree && (q.jobs > 0 || q.partition.dispatcher.polling[q.topic] == 0):
		return true
	case !isFree && q.throttle != nil: // it continues when the time is over
	case !q.blocked:
		q.blocked = true
		q.partition.dispatcher.blocked = append(q.partition.dispatcher.blocked, q)
	}
	return false
}

func (q *waitQueue) skipped() {
	if q.queued = false; q.callers == 0 {
		q.retire()
	}
}

func (q *waitQueue) at() *partition { return q.partition }

// isFree reports whether a poll of the queue may claim the position's caller. Limits hold for callers that reserve; one that pops
// is not throttled. A caller that does not wait must hear it from Redis.
func (p *position) isFree() bool {
	c := p.caller
	return c.positions != nil && !c.claimed && (!c.sorts || len(c.pending) == 0) &&
		(p.queue.throttle == nil || !c.Waits || !c.kind(p.topic).Reserves)
}

// firstFree is the first position whose caller a poll may claim, or nil.
func (q *waitQueue) firstFree() *position {
	p := q.first
	for p != nil && !p.isFree() {
		p = p.next
	}
	return p
}

// newPoll claims the first callers of the queue that take jobs in the same way: as many as there are probably
// jobs or, if a caller waits to learn whether there is one, as many as one poll can serve.
func (q *waitQueue) newPoll() *poll {
	q.queued = false
	wanted := min(q.jobs, store.MaxPop)
	if q.isPending() {
		wanted = store.MaxPop
	}
	t := &poll{partition: q.partition, store: q.partition.store, pending: q.pending}
	for p := q.first; p != nil && t.N < wanted; p = p.next {
		if !p.isFree() {
			continue
		}
		c := p.caller
		kind, n := &c.Kind, c.N
		if c.Kinds != nil || c.Limits != nil {
			kind, n = c.kind(p.topic), c.limit(p.topic)
		}
		if t.claims == nil {
			t.Kind = *kind
		}
		if *kind == t.Kind {
			c.claimed = true
			t.claims, t.N = append(t.claims, claim{c, n}), t.N+n
		}
	}
	t.N = min(t.N, store.MaxPop)
	t.Topics, t.queues = []string{q.topic}, []polledQueue{{q, q.wakes}}
	if d := q.partition.dispatcher; len(d.partitions) > 1 && len(q.pending) > 0 {
		d.polling[q.topic]++
		d.turn++
	}
	q.pending = nil
	q.on(sent, 0)
	return t
}

// tell gives the result of a poll to callers that wait to learn whether there is a job, although the poll may have claimed callers
// ahead of them. A poll that was throttled says nothing about jobs to pop.
func (q *waitQueue) tell(t *poll, isEmpty bool, err error) {
	var still []*position
	for _, p := range t.pending {
		switch {
		case !p.pending: // its caller has its answer or knows the error
		case isEmpty && (!t.throttled || t.Reserves == p.caller.kind(p.topic).Reserves) || err != nil && p.caller.isFree():
			p.answered(err)
			p.caller.pollNext()
		default:
			still = append(still, p)
		}
	}
	q.pending = append(still, q.pending...)
}

// retire ends the turn of a queue without callers. If only we were woken for a job, another client is woken now.
func (q *waitQueue) retire() {
	if q.state == polling {
		return
	}
	if q.told {
		q.partition.passOn(q.topic)
	}
	q.on(abandoned, 0)
	q.pending, q.left = nil, time.Now()
	if q.state == unknown && !q.queued && q.partition.queues[q.topic] == q { // else it was dropped earlier and replaced
		delete(q.partition.queues, q.topic)
	}
}

// throttledFor is roughly the longest time that a queue stays throttled. Redis wakes us when the limit allows more jobs or is
// changed, but a message may be lost.
const throttledFor = 10 * time.Second

// throttle ends the throttled state when its time is over.
type throttle struct{ timer *time.Timer }

// throttleFor stops reserving jobs of the queue for that long, or until we are woken, if we are registered. If not, we
// would not learn that the limit has changed.
func (q *waitQueue) throttleFor(d time.Duration, isRegistered bool) {
	longest := checkEvery
	if isRegistered {
		longest = throttledFor/2 + rand.N(throttledFor)
	}
	switch {
	case d != store.Woken:
		d = min(d, longest)
	case isRegistered:
		d = longest
	case q.hasFreePopper():
		d = time.Millisecond // until it has had its turn
	default: // a check finds the jobs and polls again
		return
	}
	q.on(limited, q.jobs)
	t := &throttle{}
	t.timer = time.AfterFunc(d, func() { q.resume(t) })
	q.throttle = t
	if q.hasFreePopper() {
		q.on(left, max(q.jobs, 1))
	}
}

// hasFreePopper reports whether a poll may claim a caller that pops, which limits do not concern.
func (q *waitQueue) hasFreePopper() bool {
	for p := q.first; p != nil; p = p.next {
		if p.isFree() && !p.caller.kind(p.topic).Reserves {
			return true
		}
	}
	return false
}

// resume polls the queue when its time is over.
func (q *waitQueue) resume(t *throttle) {
	d := q.partition.dispatcher
	d.mu.Lock()
	defer d.mu.Unlock()
	if q.throttle != t {
		return
	}
	q.on(expired, store.MaxPop)
	d.stock.raise(q.partition, q.topic, 1)
	q.goOn()
	q.partition.batches.Wake()
}
