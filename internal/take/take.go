package take

import (
	"context"
	"fmt"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// take is a pop, or a reserve, of up to n jobs for the callers it claims: those of one line, or one who asks
// several.
type take struct {
	Kind
	source  *source
	lines   []lineTake
	n       int
	callers []*caller
	wants   []int    // of each caller, at most
	multi   *caller  // who asks several lines; nil if it is for a line
	asking  []*place // in the line, before it was sent
	enter   store.Enter
	epoch   int // of the listener, when it was sent

	asked   *store.Store
	askedAt time.Time
	call    *store.Call[store.Popped]
}

// lineTake is a line of a take.
type lineTake struct {
	*line
	limit int // of its jobs
	wakes int // when it was sent
}

// add makes the line one of the take's. Whoever joins it now asks: what the take brings is older.
func (t *take) add(l *line, limit int) {
	l.entered = false
	t.lines = append(t.lines, lineTake{l, min(limit, store.MaxPop), l.wakes})
}

// claim makes the caller stay until the answer.
func (t *take) claim(c *caller, wants int) {
	c.claimed = true
	t.callers, t.wants, t.n = append(t.callers, c), append(t.wants, wants), t.n+wants
}

// send sends the take.
func (t *take) send(p *store.Pipeline) {
	w := store.Wanted{N: t.n, Enter: t.enter}
	for _, l := range t.lines {
		w.Topics, w.Limits = append(w.Topics, l.topic), append(w.Limits, l.limit)
	}
	t.sendWanted(t.source.store, p, w)
}

func (t *take) sendWanted(s *store.Store, p *store.Pipeline, w store.Wanted) {
	t.asked = s
	if t.Reserves {
		t.askedAt = time.Now()
		t.call = s.Reserve(w, t.Reservation).Send(p)
	} else {
		t.call = s.Pop(w).Send(p)
	}
}

// receive waits for the answer, whatever becomes of any context: it may bring jobs. It counts the jobs that may be lost with it.
func (t *take) receive(taker *Taker) (store.Popped, error) {
	popped, err := t.call.Wait(context.Background())
	taker.hooks.Popped(popped)
	for i := range popped.Leases {
		popped.Leases[i].Store = t.asked
	}
	if !t.Reserves && store.KindOf(err) == store.NoAnswer {
		taker.hooks.Lost(min(t.n, store.MaxPop))
		err = fmt.Errorf("%w: %w", ErrLost, err)
	}
	return popped, err
}

// done enters what is known of the lines now, gives the callers their jobs, and answers those who asked.
func (t *take) done(popped store.Popped, err error) {
	isEmpty := t.learn(popped, err)
	t.source.setAway(err != nil && store.Temporary(err))
	if t.multi != nil && isEmpty && len(t.multi.toAsk) > 0 {
		for _, p := range t.multi.toAsk[:len(t.lines)] {
			p.found(nil)
		}
		t.multi.toAsk = t.multi.toAsk[len(t.lines):]
	}
	jobs := Jobs{popped.Jobs, popped.Leases, t.askedAt}
	for i, c := range t.callers {
		c.release(jobs.cut(t.wants[i]), err)
	}
	switch {
	case t.multi == nil:
		t.lines[0].end(t.asking, t.Reserves, isEmpty, err)
	case isEmpty:
		t.multi.askNext()
	}
	for _, l := range t.lines {
		l.goOn()
	}
	t.source.taker.unblock(t.source.node)
}

// learn enters what the answer tells of the lines, and reports whether all are empty.
func (t *take) learn(popped store.Popped, err error) (allEmpty bool) {
	entered := popped.Entered && t.epoch == t.source.listener.epoch
	room, rest, allEmpty := t.n, popped.Jobs, true
	for i, l := range t.lines {
		asked, got, left := min(room, l.limit), 0, 0
		if asked == 0 { // there was no room for its jobs: nothing is new
			allEmpty = false
			continue
		}
		for got < len(rest) && rest[got].Topic == l.topic {
			got++
		}
		room, rest = room-got, rest[got:]
		if got > 0 {
			left = popped.Remaining[i]
		}
		held := popped.Held != nil && popped.Held[i] != 0
		if err == nil {
			t.source.taker.stock.learn(&t.lines[i], asked, got, left, held, popped.More, t.multi != nil && t.multi.aimed)
		}
		isEmpty := l.learn(asked, got, left, entered && !held && (t.enter.Always || got < asked), popped.More, err, l.wakes)
		switch {
		case held && l.line.wakes == l.wakes:
			l.hold(popped.Held[i], entered)
		case l.line.entered:
			l.unhold()
		}
		allEmpty = allEmpty && isEmpty
	}
	return allEmpty
}

// end ends a take of the line. Those who asked are told what is known from it, though it may have been
// for others, who are ahead of them; but one that was held back tells nothing of what can be popped. The line keeps its turn.
func (l *line) end(asking []*place, reserved, isEmpty bool, err error) {
	l.busy = false
	if len(asking) > 0 {
		if l.source.taker.asking[l.topic]--; l.source.taker.asking[l.topic] == 0 {
			delete(l.source.taker.asking, l.topic)
		}
	}
	l.requeue()
	var still []*place
	for _, p := range asking {
		switch {
		case !p.asks: // its caller has its answer, or was told of the error
		case isEmpty && (l.held == nil || reserved == p.kind().Reserves) || err != nil && p.caller.isFree():
			p.found(err)
			p.caller.askNext()
		default:
			still = append(still, p)
		}
	}
	l.asking = append(still, l.asking...)
}

// goOn has the line asked again, or ends its turn. One that waits and is not entered is looked at soon.
func (l *line) goOn() {
	if l.callers == 0 {
		l.retire()
		return
	}
	l.enqueue()
	if e := l.source.listener; e.state == subscribed && !l.entered && l.held == nil && !l.busy && l.ready == 0 && !l.isAsked() {
		e.signal()
	}
}

// unblock has the lines asked whose callers were all claimed. The round trips of all nodes but by, whose are
// under way, are woken if they have work now.
func (t *Taker) unblock(by *node) {
	held := t.blocked
	t.blocked = nil
	for _, l := range held {
		l.blocked = false
		l.goOn()
	}
	for _, n := range t.nodes {
		if n != by {
			n.trips.Wake()
		}
	}
}
