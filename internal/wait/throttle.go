package wait

import (
	"math/rand/v2"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// throttledFor is for how long, about, a queue is held back at most: Redis wakes it when its topic's limit lets it go on, or is another
// one, but a message may be lost.
const throttledFor = 10 * time.Second

// hold is that of a queue whose topic's limit lets no more jobs be reserved now. Nobody asks until Redis wakes us, or the time is over.
type hold struct{ timer *time.Timer }

// hold holds the queue back: for so long, or until it is woken, if we are entered for that. If not, nobody tells us that the limit is
// another one now.
func (l *waitQueue) hold(d time.Duration, entered bool) {
	longest := checkEvery
	if entered {
		longest = throttledFor/2 + rand.N(throttledFor)
	}
	switch {
	case d != store.Woken:
		d = min(d, longest)
	case entered:
		d = longest
	default: // who checks finds the jobs, and asks again
		return
	}
	l.unthrottle()
	h := &hold{}
	h.timer = time.AfterFunc(d, func() { l.resume(h) })
	l.held = h
	if l.firstFree() != nil { // there are jobs for those who pop
		l.ready = max(l.ready, 1)
	}
}

// unthrottle has whoever wants jobs of the queue ask again.
func (l *waitQueue) unthrottle() {
	if l.held != nil {
		l.held.timer.Stop()
		l.held = nil
	}
}

// resume has the queue asked once its time is over.
func (l *waitQueue) resume(h *hold) {
	t := l.partition.dispatcher
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.held != h {
		return
	}
	l.held, l.ready = nil, store.MaxPop
	t.stock.raise(l.partition, l.topic, 1)
	if l.callers == 0 {
		l.retire()
	} else {
		l.enqueue()
	}
	l.partition.batches.Wake()
}
