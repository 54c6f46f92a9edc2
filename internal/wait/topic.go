package wait

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// topic is what we know about a topic's ready queue in a partition, and the callers that wait for it.
type topic struct {
	partition *Partition
	name      string
	waiters   []waiter // in the order in which they came
	queues    []*queue // of callers of this topic alone, by kind
	left      time.Time

	registered   bool // it is empty, and Redis wakes us for its next job
	registeredAt time.Time
	confirmedAt  time.Time // when a poll or check last found it empty
	jobs         int       // hints: how many are probably there that waiting callers may have
	news         int       // counts the signs of new jobs
	owed         bool      // Redis woke only us: if no caller here takes the job, we pass the wake-up on
	byCheck      bool      // a check found the jobs, not a message
	throttle     *throttle // its limit lets no more jobs be reserved now
}

// waiter is a caller that waits for a topic, and how and how many of its jobs it takes.
type waiter struct {
	*Caller
	kind  *Kind
	n     int
	place int // of the topic among the caller's
}

func (p *Partition) topic(name string) *topic {
	t := p.topics[name]
	if t == nil {
		t = &topic{partition: p, name: name}
		p.topics[name] = t
	}
	return t
}

// queue returns the queue of callers that want only this topic, and in that way.
func (t *topic) queue(k *Kind) *queue {
	for _, q := range t.queues {
		if q.kind == *k {
			return q
		}
	}
	t.queues = slices.DeleteFunc(t.queues, func(q *queue) bool { return !q.inTurns && !q.isOut })
	q := &queue{partition: t.partition, topics: []*topic{t}, kind: *k}
	t.queues = append(t.queues, q)
	return q
}

// isBusy reports whether callers of this topic alone are being polled for.
func (t *topic) isBusy() bool {
	return slices.ContainsFunc(t.queues, func(q *queue) bool { return q.inTurns || q.isOut })
}

// needsNoPoll reports whether a caller that waits need not poll: the topic has no job for it, and Redis wakes us, or the limit's time ends.
func (t *topic) needsNoPoll(k *Kind) bool { return t.registered || t.throttle != nil && k.Reserves }

// isFresh reports whether a caller that always finds jobs of other topics may rely on what is known. Such a caller is in no list, so no check covers
// its topics, and a message may be lost, or come from no server of ours.
func (t *topic) isFresh(now time.Time) bool {
	return t.throttle != nil || now.Sub(t.confirmedAt) < 2*t.partition.listener.every
}

// firstFree is the index of the first waiter, from that index on, that a poll of that kind may claim, of any kind if k is nil; -1 if none is left. Limits hold for callers
// that reserve only.
func (t *topic) firstFree(k *Kind, from int) int {
	for i, w := range t.waiters[from:] {
		if !w.isClaimed && (k == nil || *w.kind == *k) && (t.throttle == nil || !w.kind.Reserves) {
			return from + i
		}
	}
	return -1
}

// claim claims the first waiters that take jobs in that way, for up to that many jobs.
func (t *topic) claim(k *Kind, jobs int) (claims []claim) {
	n := 0
	for i := t.firstFree(k, 0); i >= 0 && n < jobs; i = t.firstFree(k, i+1) {
		w := t.waiters[i]
		w.isClaimed = true
		claims, n = append(claims, claim{w.Caller, w.n}), n+w.n
	}
	t.jobs = max(t.jobs-n, 0)
	return claims
}

// goOn polls for the first waiters if there is a hint. Without one, a check follows at once unless we are registered. It only queues
// the poll: code that calls it also calls batches.Wake, unless a batch of the partition runs it.
func (t *topic) goOn() {
	switch e := t.partition.listener; {
	case len(t.waiters) == 0:
		t.retire()
	case t.jobs > 0:
		if i := t.firstFree(nil, 0); i >= 0 {
			t.queue(t.waiters[i].kind).queueUp()
		}
	case !t.registered && t.throttle == nil && !t.isBusy() && e.state == subscribed:
		e.look = true
		e.signal()
	}
}

// empty takes in that there are no jobs, and that we are registered.
func (t *topic) empty() {
	if t.throttle != nil {
		t.release()
	}
	t.registered, t.jobs, t.owed, t.byCheck, t.registeredAt = true, 0, false, false, time.Now()
	t.confirmedAt = t.registeredAt
}

// found takes in that there are jobs: a check has found them, or Redis woke only us. A check can't tell whether a limit allows more.
func (t *topic) found(jobs int, told bool) {
	if t.throttle != nil {
		if !told {
			return
		}
		t.release()
	}
	t.registered, t.jobs, t.owed, t.byCheck = false, max(t.jobs, jobs), t.owed || told, !told
	t.news++
	t.goOn()
}

// unheard takes in that we may not be registered any more.
func (t *topic) unheard() {
	t.registered = false
	t.release()
}

// retire forgets the hints of a topic without callers. If only we were woken for a job, another Client is woken now.
func (t *topic) retire() {
	if t.isBusy() {
		return
	}
	if t.owed {
		t.partition.passOn(t.name)
	}
	t.jobs, t.owed, t.left = 0, false, time.Now()
	if !t.registered && t.throttle == nil && t.partition.topics[t.name] == t {
		delete(t.partition.topics, t.name)
	}
}

// wake handles a wake-up, which only we have received.
func (p *Partition) wake(topic string, jobs int) {
	if t := p.topics[topic]; t != nil {
		t.found(jobs, true)
	} else {
		p.passOn(topic)
	}
	p.batches.Wake()
}

func (p *Partition) passOn(topic string) {
	p.unused = append(p.unused, topic)
	p.batches.Wake()
}

// forget drops topics that have had no callers for that long. If we are woken for one of these, we pass the wake-up on.
func (p *Partition) forget(after time.Duration) {
	for name, t := range p.topics {
		if len(t.waiters) == 0 && !t.isBusy() && time.Since(t.left) >= after {
			t.unheard()
			delete(p.topics, name)
		}
	}
}

// throttledFor is roughly the longest time that a topic stays throttled. Redis wakes us when the limit allows more jobs or is
// changed, but a message may be lost.
const throttledFor = 10 * time.Second

// throttle holds callers that reserve until its time is over.
type throttle struct{ timer *time.Timer }

// throttleFor holds callers that reserve for that long, or until we are woken, if we are registered. If not, we would not learn that the
// limit has changed.
func (t *topic) throttleFor(d time.Duration, isRegistered bool) {
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
	t.release()
	h := &throttle{}
	h.timer = time.AfterFunc(d, func() {
		t.partition.shared.mu.Lock()
		defer t.partition.shared.mu.Unlock()
		if t.throttle == h {
			t.throttle, t.jobs = nil, store.MaxPop
			t.goOn()
			t.partition.batches.Wake()
		}
	})
	t.throttle, t.jobs = h, max(t.jobs, 1) // callers that pop may have the jobs
}

// release ends the throttle.
func (t *topic) release() {
	if t.throttle != nil {
		t.throttle.timer.Stop()
		t.throttle = nil
	}
}
