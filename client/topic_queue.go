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
	coalescer // of one pop at a time, so that callers are served in their order
	topicKey
	kind
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
	return first != nil && first.Value.(*caller).asks == 0
}

// waiting reports whether a pop is called for.
func (q *topicQueue) waiting() bool {
	return slices.ContainsFunc(q.asking, (*caller).isFree) || q.ready > 0 && q.hasFree()
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

// next claims the first callers: as many as jobs are believed to be there, or,
// if somebody asks, as many as one pop can serve.
func (q *topicQueue) next() (int, func(*store.Pipeline, error)) {
	var asking, claimed []*caller
	for _, c := range q.asking {
		switch {
		case c.isFree():
			asking = append(asking, c)
		case c.claimed:
			claimed = append(claimed, c)
		}
	}
	q.asking = claimed
	n := min(q.ready, store.MaxPop)
	if len(asking) > 0 {
		n = store.MaxPop
	}
	callers, jobs := q.claimable(n)
	jobs = min(jobs, store.MaxPop)
	heard := q.heard
	claim(callers).hold()
	return len(callers), func(p *store.Pipeline, err error) {
		got, more, err := q.client.popOrReserve(p, err, q.kind, []string{q.topic}, []int{jobs}, jobs)
		q.mu.Lock()
		defer q.mu.Unlock()
		q.learn(len(got.jobs), more, err, jobs, heard)
		// Whoever asked knows now that the queue is empty, though the pop
		// may have been for those ahead of it.
		full := err == nil && (more || len(got.jobs) == jobs)
		claim(callers).release(got, err, q)
		for _, c := range asking {
			switch {
			case c.places == nil:
			case full:
				q.asking = append(q.asking, c)
			case err == nil:
				c.isEmpty()
			case c.asks > 0: // it was not among those whom the pop was for
				c.failed(err)
			}
		}
	}
}

// idle forgets a queue that nobody needs.
func (q *topicQueue) idle() {
	if q.callers.Len() > 0 || q.underWay > 0 || q.wanted {
		return
	}
	queues := q.client.topics.queues
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
		q.mu.Lock()
		defer q.mu.Unlock()
		q.delayed, q.ready = false, q.pending
		q.wake()
	})
}
