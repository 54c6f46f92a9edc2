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
	e.taker().mu.Lock()
	defer e.taker().mu.Unlock()
	now := time.Now()
	e.lastHit, e.renew = now, false
	return &looks{listener: e, asked: now, next: now.Add(rand.N(lookEvery))}
}

// due are the lines whose turn it is.
func (k *looks) due() []*line {
	e := k.listener
	e.taker().mu.Lock()
	defer e.taker().mu.Unlock()
	e.taker().regroup()
	e.node.forget(lingerFor)
	if e.state != refused {
		return e.node.waited()
	}
	if len(k.round) == 0 {
		k.round = e.node.waited()
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
	e.taker().mu.Lock()
	defer e.taker().mu.Unlock()
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
		k.served, k.checked = e.taker().sources[0].store.Served(e.closing()), time.Now()
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
	e.taker().mu.Lock()
	defer e.taker().mu.Unlock()
	return e.state == state
}

// isCalm reports whether we are entered wherever callers wait, and looks have found nothing for long.
func (e *listener) isCalm() bool {
	e.taker().mu.Lock()
	defer e.taker().mu.Unlock()
	if time.Since(e.lastHit) < calmAfter {
		return false
	}
	for _, l := range e.node.waited() {
		if !l.entered && l.held == nil && !l.busy {
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
	looks := e.question(lines)
	asked := make([]store.LookAt, len(looks))
	for i := range looks {
		asked[i] = looks[i].LookAt
	}
	found, err := store.Look(e.closing(), asked...)
	if err != nil {
		return err
	}
	e.taker().mu.Lock()
	defer e.taker().mu.Unlock()
	e.learn(looks, found)
	return nil
}

// look is one at lines of one source.
type look struct {
	store.LookAt
	lines []*line
	wakes []int // of each, when it was sent
	epoch int   // of the listener, when it was sent
}

// newLook is one at these lines. Nobody is entered for them yet.
func (e *listener) newLook(lines []*line) *look {
	k := &look{lines: lines, epoch: e.epoch, LookAt: store.LookAt{Store: lines[0].source.store}}
	if e.state == subscribed {
		k.Waiter = e.id
	}
	for _, l := range lines {
		k.Topics, k.Since = append(k.Topics, l.topic), append(k.Since, -1)
		k.wakes = append(k.wakes, l.wakes)
	}
	return k
}

// question is what a look asks each source.
func (e *listener) question(lines []*line) (looks []*look) {
	e.taker().mu.Lock()
	defer e.taker().mu.Unlock()
	probe := lines[rand.IntN(len(lines))]
	for len(lines) > 0 {
		n := 1
		for n < len(lines) && lines[n].source == lines[0].source {
			n++
		}
		k := e.newLook(lines[:n])
		for i, l := range k.lines {
			if l.first != nil && (!l.entered || l == probe || time.Since(l.enteredAt) > enterAgain) {
				k.Since[i] = time.Since(l.first.caller.joined)
			}
		}
		looks, lines = append(looks, k), lines[n:]
	}
	return looks
}

// learn enters what looks have found. An entry of ours that is missing means that others may be, too.
func (e *listener) learn(looks []*look, found []store.Looked) {
	e.looks++
	e.node.setAway(false)
	full := map[*caller]bool{}
	for i, k := range looks {
		for j, l := range k.lines {
			if l.wakes == k.wakes[j] && l.held == nil {
				e.taker().stock.set(l, found[i].Lengths[j])
			}
			if found[i].Lengths[j] == 0 {
				continue
			}
			for p := l.first; p != nil; p = p.next {
				full[p.caller] = true
			}
			if l.held == nil {
				l.wake(found[i].Lengths[j], false)
				l.byLook = true
			}
		}
	}
	for i, k := range looks {
		for j, l := range k.lines {
			if found[i].Lengths[j] > 0 {
				continue
			}
			l.recover(full)
			if added, ok := k.enters(j, found[i]); ok {
				if l.entered && added {
					e.lose()
				}
				l.entered, l.enteredAt = true, time.Now()
				l.unhold()
			}
		}
	}
	e.node.trips.Wake()
}

// enters reports whether the look has entered us for the line, and whether we did not stand there before. What we were
// told since it was sent is newer.
func (k *look) enters(line int, found store.Looked) (added, ok bool) {
	l := k.lines[line]
	return found.Added[line], k.Waiter != "" && k.Since[line] >= 0 && found.Entered && k.epoch == l.source.listener.epoch && l.wakes == k.wakes[line]
}

// lose has us enter everywhere anew: an entry of ours was gone, so others may be.
func (e *listener) lose() {
	for _, s := range e.node.sources {
		for _, l := range s.lines {
			l.entered = false
			l.unhold()
		}
	}
	e.look = true
	e.signal()
}

// recover tells the callers of an empty line that Redis answers, unless another line of theirs has jobs: why
// these do not come is not known yet; nor while another node is away.
func (l *line) recover(full map[*caller]bool) {
	for p := l.first; p != nil; p = p.next {
		if c := p.caller; c.waits() && c.lastErr != nil && !full[c] && !l.source.taker.isAnyAway() {
			c.recovered()
		}
	}
}
