package wait

import (
	"math/rand/v2"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// topic is a topic in all partitions: its waiting callers, each of which waits for jobs of any partition.
type topic struct {
	name    string
	waiters []waiter     // in the order in which they came
	in      []readyQueue // in each partition
	left    time.Time    // when a caller last left, or came to poll
}

// readyQueue is what we know about a topic's ready queue in a partition.
type readyQueue struct {
	topic        *topic
	partition    *Partition
	registered   bool        // it is empty, and Redis wakes us for its next job
	owed         bool        // Redis woke only us: if no caller here takes the job, we pass the wake-up on
	byCheck      bool        // a check found the jobs, not a message
	jobs         int         // hints: how many are probably there that waiting callers may have
	news         int         // counts the signs of new jobs
	throttle     *time.Timer // its limit lets no more jobs be reserved until then
	queues       []*queue    // of callers of this topic alone, by kind
	registeredAt time.Time
}

// waiter is a caller that waits for a topic, and how and how many of its jobs it takes.
type waiter struct {
	*Caller
	kind  *Kind
	n     int
	place int // of the topic among the caller's
}

// isLost reports whether callers wait for its jobs, and would not learn of them.
func (q *readyQueue) isLost() bool {
	return len(q.topic.waiters) > 0 && !q.registered && q.throttle == nil
}

// isEmpty reports whether it has no job for a caller that waits, as far as we know: Redis wakes us, or the limit's time ends.
func (q *readyQueue) isEmpty(k *Kind) bool { return q.registered || q.throttle != nil && k.Reserves }

// firstFree is the index of the first waiter, from that index on, that a poll of that kind may claim, of any kind if k is nil; -1 if none is left. Limits hold for callers
// that reserve only.
func (q *readyQueue) firstFree(k *Kind, from int) int {
	for i, w := range q.topic.waiters[from:] {
		if !w.isClaimed && (k == nil || *w.kind == *k) && (q.throttle == nil || !w.kind.Reserves) {
			return from + i
		}
	}
	return -1
}

// claim claims the first waiters that take jobs in that way, for up to that many jobs.
func (q *readyQueue) claim(k *Kind, jobs int) (claims []claim) {
	n := 0
	for i := q.firstFree(k, 0); i >= 0 && n < jobs; i = q.firstFree(k, i+1) {
		w := q.topic.waiters[i]
		w.isClaimed = true
		claims, n = append(claims, claim{w.Caller, w.n}), n+w.n
	}
	q.jobs = max(q.jobs-n, 0)
	return claims
}

// empty takes in that there are no jobs, and that we are registered.
func (q *readyQueue) empty() {
	if q.throttle != nil {
		q.release()
	}
	q.registered, q.jobs, q.owed, q.byCheck, q.registeredAt = true, 0, false, false, time.Now()
}

// found takes in that there are jobs: a check has found them, or Redis woke only us. A check can't tell whether a limit allows more.
func (q *readyQueue) found(jobs int, told bool) {
	if q.throttle != nil {
		if !told {
			return
		}
		q.release()
	}
	q.registered, q.jobs, q.owed, q.byCheck = false, max(q.jobs, jobs), q.owed || told, !told
	q.news++
	q.goOn()
}

// unheard takes in that we may not be registered any more.
func (q *readyQueue) unheard() {
	q.registered = false
	q.release()
}

// wake handles a wake-up, which only we have received.
func (p *Partition) wake(topic string, jobs int) {
	if t := p.shared.topics[topic]; t != nil {
		t.in[p.number].found(jobs, true)
	} else {
		p.passOn(topic)
	}
	p.batches.Wake()
}

func (p *Partition) passOn(topic string) {
	p.unused = append(p.unused, topic)
	p.batches.Wake()
}

// throttledFor is roughly the longest time that a topic stays throttled. Redis wakes us when the limit allows more jobs or is
// changed, but a message may be lost.
const throttledFor = 10 * time.Second

// throttleFor holds callers that reserve for that long, or until we are woken, if we are registered. If not, we would not learn that the
// limit has changed.
func (q *readyQueue) throttleFor(d time.Duration, isRegistered bool) {
	longest := checkEvery
	if isRegistered {
		longest = throttledFor/2 + rand.N(throttledFor)
	}
	switch {
	case d != store.Woken:
		d = min(d, longest)
	case isRegistered:
		d = longest
	default: // a check finds the jobs and polls again
		return
	}
	q.release()
	var throttle *time.Timer
	throttle = time.AfterFunc(d, func() {
		q.partition.shared.mu.Lock()
		defer q.partition.shared.mu.Unlock()
		if q.throttle == throttle {
			q.throttle, q.jobs = nil, store.MaxPop
			q.goOn()
			q.partition.batches.Wake()
		}
	})
	q.throttle, q.jobs = throttle, max(q.jobs, 1) // callers that pop may have the jobs
}

// release ends the throttle.
func (q *readyQueue) release() {
	if q.throttle != nil {
		q.throttle.Stop()
		q.throttle = nil
	}
}
