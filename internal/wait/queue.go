package wait

import (
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// state is what is known of the ready queue of a topic in a partition: see the package.
type state int

const (
	unknown state = iota
	ready
	polling
	registered
	throttled
)

// event is what changes a state.
type event int

const (
	sent      event = iota // a poll for the queue's callers
	sentAmong              // a poll of several topics
	left                   // an answer says how many jobs are left, 0 if there may be none
	failed                 // a poll
	empty                  // an answer says that there are no jobs, and that we are registered
	limited                // an answer says that the topic's limit lets no more be reserved now
	ended                  // the poll for the queue's callers: its answer was taken in
	woken                  // Redis woke us, alone, for jobs
	foundJobs              // by a check
	expired                // the limit may let more be reserved now
	unheard                // we may not be registered any more
	abandoned              // the last caller has left
)

// waitQueue has the callers that want jobs of a topic of a partition, and what is known of its ready queue.
type waitQueue struct {
	partition   *partition
	topic       string
	first, last *position // of the callers, in the order in which they came
	callers     int
	pending     []*position // of callers of this topic alone, who are to be told whether there is a job
	queued      bool        // in its node's turns
	blocked     bool        // all its callers are claimed by polls of other queues
	left        time.Time   // when the last caller left

	// All that follows is changed by on alone.
	state        state
	next         state     // while it is polling: the state that follows
	jobs         int       // how many are believed to be there when it is ready; when it is throttled, for those who pop
	wakes        int       // counts what made us believe that there are jobs
	told         bool      // Redis woke only us: if nobody here takes the job, the wake-up is passed on
	byCheck      bool      // it is ready since a check, and not since a message
	registeredAt time.Time // when we were last
	throttle     *throttle // of the throttled state, also while it is polling for those who pop
}

// on is the one place where the state changes. While the queue is polling, what happens counts for the state that follows.
// n is how many jobs there are: with left, woken, foundJobs, limited and expired.
func (q *waitQueue) on(e event, n int) {
	known := &q.state
	if q.state == polling {
		known = &q.next
	}
	before := *known
	switch e {
	case sent: // the answer will tell
		if q.next, q.jobs = unknown, 0; before == throttled {
			q.next = throttled
		}
		q.state, known = polling, &q.next
	case sentAmong:
		if before == registered { // whoever joins it now polls: what that poll brings is older
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

// push puts the caller behind the others. A topic that it names twice counts once.
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

// ask has the queue polled for the position's caller, who is to be told whether there is a job, together with others.
func (q *waitQueue) ask(p *position) {
	q.pending = append(q.pending, p)
	if q.state != polling {
		q.queueUp()
	}
}

// goOn has the queue polled if somebody wants it to be. One that waits, and is not registered, is checked soon.
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

// queueUp has the queue polled if somebody wants it to be when its turn comes: those who were served
// may have come again by then, and go together.
func (q *waitQueue) queueUp() {
	if !q.queued {
		q.queued = true
		q.partition.turns = append(q.partition.turns, q)
	}
}

// isPending reports whether any caller is to be told whether there is a job; those who have their answers are forgotten.
func (q *waitQueue) isPending() bool {
	for len(q.pending) > 0 && !q.pending[0].pending {
		q.pending = q.pending[1:]
	}
	return len(q.pending) > 0
}

// isDue reports whether the queue can be polled now. If all its callers are claimed, it can be later; and so it can if
// the topic's queue of another partition is polled now: those who come meanwhile go together.
func (q *waitQueue) isDue() bool {
	if q.callers == 0 || q.jobs == 0 && !q.isPending() {
		return false
	}
	isFree := q.first.isFree() || q.firstFree() != nil
	switch {
	case isFree && (q.jobs > 0 || q.partition.dispatcher.polling[q.topic] == 0):
		return true
	case !isFree && q.throttle != nil: // it goes on when the time is over
	case !q.blocked:
		q.blocked = true
		q.partition.dispatcher.blocked = append(q.partition.dispatcher.blocked, q)
	}
	return false
}

// skipped implements poller.
func (q *waitQueue) skipped() {
	if q.queued = false; q.callers == 0 {
		q.retire()
	}
}

func (q *waitQueue) at() *partition { return q.partition }

// isFree reports whether a poll of the queue may claim the position's caller. Limits are for those who reserve: who pops is not
// throttled. Who does not wait is to be told so by Redis.
func (p *position) isFree() bool {
	c := p.caller
	return c.positions != nil && !c.claimed && (!c.sorts || len(c.pending) == 0) &&
		(p.queue.throttle == nil || !c.Waits || !c.kind(p.topic).Reserves)
}

// firstFree is the first position whose caller a poll may claim, if there is one.
func (q *waitQueue) firstFree() *position {
	p := q.first
	for p != nil && !p.isFree() {
		p = p.next
	}
	return p
}

// newPoll claims the first callers of the queue who take jobs in one way: as many as jobs are believed to be
// there or, if somebody is to be told, as one poll can serve.
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

// tell tells those who were to be told whether there is a job what is known from a poll of the queue, though it may have been
// for others, who are ahead of them; but one that was throttled tells nothing of what can be popped.
func (q *waitQueue) tell(t *poll, isEmpty bool, err error) {
	var still []*position
	for _, p := range t.pending {
		switch {
		case !p.pending: // its caller has its answer, or was told of the error
		case isEmpty && (q.throttle == nil || t.Reserves == p.caller.kind(p.topic).Reserves) || err != nil && p.caller.isFree():
			p.answered(err)
			p.caller.pollNext()
		default:
			still = append(still, p)
		}
	}
	q.pending = append(still, q.pending...)
}

// retire ends the turn of a queue without callers. A job that we alone were told of is for others then.
func (q *waitQueue) retire() {
	if q.state == polling {
		return
	}
	if q.told {
		q.partition.passOn(q.topic)
	}
	q.on(abandoned, 0)
	q.pending, q.left = nil, time.Now()
	if q.state == unknown && !q.queued && q.partition.queues[q.topic] == q { // else it was forgotten before, and there is a new one
		delete(q.partition.queues, q.topic)
	}
}
