package wait

import (
	"math/rand/v2"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

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
