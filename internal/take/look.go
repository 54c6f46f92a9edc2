package take

import (
	"math/rand/v2"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// looks says when lines are looked at. It is for one goroutine, that of listen.
type looks struct {
	listener *listener
	next     time.Time
	round    []*line   // polled lines whose turn is to come
	turn     int       // so many of them at a time
	asked    time.Time // when we last tried to subscribe
	served   bool      // a server runs that wakes us
	checked  time.Time // when that was last asked
}

// newLooks begins at some moment within lookEvery, as many Clients may have subscribed at once.
func newLooks(e *listener) *looks {
	e.source.taker.mu.Lock()
	defer e.source.taker.mu.Unlock()
	now := time.Now()
	e.lastHit, e.renew = now, false
	return &looks{listener: e, asked: now, next: now.Add(rand.N(lookEvery))}
}

// due are the lines whose turn it is.
func (k *looks) due() []*line {
	e := k.listener
	e.source.taker.mu.Lock()
	defer e.source.taker.mu.Unlock()
	e.source.forget(lingerFor)
	if e.state != refused {
		return e.waited()
	}
	if len(k.round) == 0 {
		k.round = e.waited()
		k.turn = max(PollAtOnce, 1+len(k.round)/int(lookEvery/pollEvery))
	}
	n := min(k.turn, len(k.round))
	lines := k.round[:n]
	k.round = k.round[n:]
	return lines
}

// subscribes reports whether it is time to try to subscribe again.
func (k *looks) subscribes() bool {
	e := k.listener
	e.source.taker.mu.Lock()
	defer e.source.taker.mu.Unlock()
	again := e.state == refused && (e.again || time.Since(k.asked) >= subscribeAgain)
	if again {
		k.asked, e.again = time.Now(), false
	}
	return again
}

// plan sets when the next look is due.
func (k *looks) plan() {
	e := k.listener
	calm := e.isCalm()
	if calm && time.Since(k.checked) > time.Minute {
		k.served, k.checked = e.source.store.Served(e.source.taker.closing), time.Now()
	}
	every := lookEvery
	switch {
	case e.is(refused):
		every = pollEvery
	case calm && k.served:
		every = slowLook
	}
	if now := time.Now(); !k.next.After(now) || k.next.Sub(now) > every {
		k.next = now.Add(every)
	}
}

func (e *listener) is(state listenerState) bool {
	e.source.taker.mu.Lock()
	defer e.source.taker.mu.Unlock()
	return e.state == state
}

// isCalm reports whether we are entered wherever callers wait, and looks have found nothing for long.
func (e *listener) isCalm() bool {
	e.source.taker.mu.Lock()
	defer e.source.taker.mu.Unlock()
	if time.Since(e.lastHit) < calmAfter {
		return false
	}
	for _, l := range e.source.lines {
		if l.callers > 0 && !l.entered && !l.busy {
			return false
		}
	}
	return true
}

// lookAt looks at the lines, and enters us where it finds no jobs.
func (e *listener) lookAt(lines []*line) error {
	if len(lines) == 0 {
		return nil
	}
	question, epoch := e.question(lines)
	found, err := e.source.store.Look(e.source.taker.closing, question)
	if found.Replaced {
		e.source.taker.Renew()
	}
	if err != nil {
		return err
	}
	e.learn(lines, question, epoch, found)
	return nil
}

// question is what a look asks.
func (e *listener) question(lines []*line) (q store.LookAt, epoch int) {
	e.source.taker.mu.Lock()
	defer e.source.taker.mu.Unlock()
	q = store.LookAt{Topics: make([]string, len(lines)), Since: make([]time.Duration, len(lines))}
	if e.state == subscribed {
		q.Waiter = e.id
	}
	probe := rand.IntN(len(lines))
	for i, l := range lines {
		q.Topics[i], q.Since[i] = l.topic, -1
		l.lookedAt = l.wakes
		if l.first != nil && (!l.entered || i == probe || time.Since(l.enteredAt) > enterAgain) {
			q.Since[i] = time.Since(l.first.caller.joined)
		}
	}
	return q, e.epoch
}

// learn enters what a look has found. An entry of ours that is missing means that others may be, too.
func (e *listener) learn(lines []*line, q store.LookAt, epoch int, found store.Looked) {
	s := e.source
	s.taker.mu.Lock()
	defer s.taker.mu.Unlock()
	e.looks++
	full := map[*caller]bool{}
	for i, l := range lines {
		if found.Lengths[i] == 0 {
			continue
		}
		for p := l.first; p != nil; p = p.next {
			full[p.caller] = true
		}
		l.wake(found.Lengths[i], false)
		l.byLook = true
	}
	for i, l := range lines {
		if found.Lengths[i] > 0 {
			continue
		}
		l.recover(full)
		if q.Since[i] < 0 || !found.Entered || epoch != e.epoch || l.wakes != l.lookedAt {
			continue
		}
		if l.entered && found.Added[i] {
			e.lose()
		}
		l.entered, l.enteredAt = true, time.Now()
	}
	s.trips.Wake()
}

// lose has us enter everywhere anew: an entry of ours was gone, so others may be.
func (e *listener) lose() {
	for _, l := range e.source.lines {
		l.entered = false
	}
	e.look = true
	e.signal()
}

// recover tells the callers of an empty line that Redis answers, unless another line of theirs has jobs: why
// these do not come is not known yet.
func (l *line) recover(full map[*caller]bool) {
	for p := l.first; p != nil; p = p.next {
		if c := p.caller; c.waits() && c.lastErr != nil && !full[c] {
			c.recovered()
		}
	}
}
