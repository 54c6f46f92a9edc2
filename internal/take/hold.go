package take

import (
	"math/rand/v2"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// heldFor is for how long, about, a line is held back at most: Redis wakes it when its topic's limit lets it go on, or is another
// one, but a message may be lost.
const heldFor = 10 * time.Second

// hold is that of a line whose topic's limit lets no more jobs be reserved now. Nobody asks until Redis wakes us, or the time is over.
type hold struct{ timer *time.Timer }

// hold holds the line back: for so long, or until it is woken, if we are entered for that. If not, nobody tells us that the limit is
// another one now.
func (l *line) hold(d time.Duration, entered bool) {
	longest := lookEvery
	if entered {
		longest = heldFor/2 + rand.N(heldFor)
	}
	switch {
	case d != store.Woken:
		d = min(d, longest)
	case entered:
		d = longest
	default: // who looks finds the jobs, and asks again
		return
	}
	l.unhold()
	h := &hold{}
	h.timer = time.AfterFunc(d, func() { l.resume(h) })
	l.held = h
	if l.firstFree() != nil { // there are jobs for those who pop
		l.ready = max(l.ready, 1)
	}
}

// unhold has whoever wants jobs of the line ask again.
func (l *line) unhold() {
	if l.held != nil {
		l.held.timer.Stop()
		l.held = nil
	}
}

// resume has the line asked once its time is over.
func (l *line) resume(h *hold) {
	t := l.source.taker
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.held != h {
		return
	}
	l.held, l.ready = nil, store.MaxPop
	t.stock.raise(l.source, l.topic, 1)
	if l.callers == 0 {
		l.retire()
	} else {
		l.enqueue()
	}
	l.source.trips.Wake()
}
