package client

import (
	"container/list"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// topicQueue is a ready queue that has callers, or had some lately, who take jobs in one way.
type topicQueue struct {
	topics *topics
	topicKey
	kind
	busy    bool      // it is among the askers, or its pop is under way: one at a time keeps the callers' order
	callers list.List // of *caller, in the order in which they came
	asking  []*caller // those who want to know whether there is a job now
	ready   int       // how many jobs are believed to be there
	heard   int       // counts what made us believe so
	hearing           // of new ones
	rivals  int       // about how many other Clients hear the same and are faster
	delayed bool      // a pop will be made soon
	pending int       // for that many jobs
}

// Many Clients may hear of one job. So that not all of them ask for it at the same
// moment, one that comes too late as a rule waits up to rivalDelay for each of its
// rivals before it asks: then the first comes as soon as before, almost, and who is still
// waiting hears of further jobs meanwhile, and asks once for all of them.
const (
	rivalDelay = 500 * time.Microsecond
	maxRivals  = 10
)

// isWaitedFor reports whether the first caller has found the queue empty and waits.
func (q *topicQueue) isWaitedFor() bool {
	first := q.callers.Front()
	return first != nil && !first.Value.(*caller).isAsking()
}

// waiting reports whether a pop is called for.
func (q *topicQueue) waiting() bool {
	asks := func(c *caller) bool { return c.isFree() && c.asks(q) }
	return slices.ContainsFunc(q.asking, asks) || q.ready > 0 && q.hasFree()
}

// hasFree reports whether there is a caller for whom no pop is under way.
func (q *topicQueue) hasFree() bool {
	_, jobs := q.claimable(1)
	return jobs > 0
}

// claimable are the first callers for whom no pop is under way, as many as n jobs are
// for, and how many jobs they want.
func (q *topicQueue) claimable(n int) (callers []*caller, jobs int) {
	for e := q.callers.Front(); e != nil && jobs < n; e = e.Next() {
		if c := e.Value.(*caller); c.isFree() {
			callers = append(callers, c)
			jobs += c.wants(q)
		}
	}
	return callers, jobs
}

// wake has a pop made if one is called for.
func (q *topicQueue) wake() {
	if !q.busy && q.waiting() {
		q.busy = true
		q.partition.takes.add(q)
	}
}

// ask claims the first callers: as many as jobs are believed to be there, or,
// if somebody asks, as many as one pop can serve.
func (q *topicQueue) ask() *take {
	var asking, claimed []*caller
	for _, c := range q.asking {
		switch {
		case !c.asks(q):
		case c.claimed:
			claimed = append(claimed, c)
		default:
			asking = append(asking, c)
		}
	}
	q.asking = claimed
	n := min(q.ready, store.MaxPop)
	if len(asking) > 0 {
		n = store.MaxPop
	}
	callers, jobs := q.claimable(n)
	if len(callers) == 0 { // all have left
		q.rest()
		return nil
	}
	claim(callers).hold()
	jobs = min(jobs, store.MaxPop)
	heard := q.heard
	return &take{
		kind: q.kind, topics: []string{q.topic}, limits: []int{jobs}, n: jobs, callers: len(callers),
		end: func(got taken, more bool, err error) {
			q.learn(len(got.jobs), more, err, jobs, heard)
			claim(callers).release(got, err, q)
			q.tellAsking(asking, err == nil && (more || len(got.jobs) == jobs), err)
			q.partition.takes.addAgain(q)
		},
	}
}

// tellAsking tells those who have asked what they can know from a pop, though that may
// have been for those ahead of them: unless it brought all that it was for, the queue is empty.
func (q *topicQueue) tellAsking(asking []*caller, full bool, err error) {
	for _, c := range asking {
		switch {
		case !c.asks(q): // it has its answer, or was told of the error
		case full:
			q.asking = append(q.asking, c)
		case err == nil:
			c.isEmpty(q)
		default:
			c.failed(err)
		}
	}
}

func (q *topicQueue) rest() {
	q.busy = false
	q.idle()
}

// idle forgets a queue that nobody needs.
func (q *topicQueue) idle() {
	if q.callers.Len() > 0 || q.busy || q.wanted {
		return
	}
	queues := q.topics.queues
	queues[q.topicKey] = slices.DeleteFunc(queues[q.topicKey], func(other *topicQueue) bool { return other == q })
	if len(queues[q.topicKey]) == 0 {
		delete(queues, q.topicKey)
	}
}

// learn enters what a pop that asked for so many jobs tells about the queue. What was heard
// since it was sent is newer.
func (q *topicQueue) learn(got int, more bool, err error, asked, heard int) {
	switch {
	case got > 0:
		q.rivals /= 2
	case err == nil && q.ready > 0: // it was told that there are jobs
		q.rivals = min(q.rivals+1, maxRivals)
	}
	switch {
	case err == nil && more:
		q.ready = max(q.ready, 1)
	case q.heard != heard && !q.delayed:
	case err == nil && got == asked:
		q.ready = max(q.ready-asked, 0)
	default:
		q.ready = 0
	}
}

// tell enters that the queue has jobs, so many.
func (q *topicQueue) tell(jobs int) {
	q.heard++
	if q.delayed {
		q.pending = jobs
		return
	}
	// There is enough for all rivals, or there are none.
	if jobs > q.rivals || q.callers.Len() == 0 {
		q.ready = jobs
		q.wake()
		return
	}
	q.delayed, q.pending = true, jobs
	time.AfterFunc(rand.N(time.Duration(q.rivals)*rivalDelay), func() {
		q.topics.mu.Lock()
		defer q.topics.mu.Unlock()
		q.delayed, q.ready = false, q.pending
		q.wake()
	})
}
