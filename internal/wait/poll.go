package wait

import (
	"context"
	"fmt"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// poll is a pop, or a reserve, of up to n jobs for the callers it claims: those of one queue, or one who asks
// several.
type poll struct {
	Kind
	partition *partition
	queues    []polledQueue
	n         int
	callers   []*caller
	wants     []int       // of each caller, at most
	multi     *caller     // who asks several queues; nil if it is for a queue
	pending   []*position // in the queue, before it was sent
	enter     store.Enter
	epoch     int // of the listener, when it was sent

	asked   *store.Store
	askedAt time.Time
	call    *store.Call[store.Popped]
}

// polledQueue is a queue of a poll.
type polledQueue struct {
	*waitQueue
	limit int // of its jobs
	wakes int // when it was sent
}

// add makes the queue one of the poll's. Whoever joins it now asks: what the poll brings is older.
func (t *poll) add(l *waitQueue, limit int) {
	l.entered = false
	t.queues = append(t.queues, polledQueue{l, min(limit, store.MaxPop), l.wakes})
}

// claim makes the caller stay until the answer.
func (t *poll) claim(c *caller, wants int) {
	c.claimed = true
	t.callers, t.wants, t.n = append(t.callers, c), append(t.wants, wants), t.n+wants
}

// send sends the poll.
func (t *poll) send(p *store.Pipeline) {
	w := store.Wanted{N: t.n, Enter: t.enter}
	for _, l := range t.queues {
		w.Topics, w.Limits = append(w.Topics, l.topic), append(w.Limits, l.limit)
	}
	t.sendWanted(t.partition.store, p, w)
}

func (t *poll) sendWanted(s *store.Store, p *store.Pipeline, w store.Wanted) {
	t.asked = s
	if t.Reserves {
		t.askedAt = time.Now()
		t.call = s.Reserve(w, t.Reservation).Send(p)
	} else {
		t.call = s.Pop(w).Send(p)
	}
}

// receive waits for the answer, whatever becomes of any context: it may bring jobs. It counts the jobs that may be lost with it.
func (t *poll) receive(dispatcher *Dispatcher) (store.Popped, error) {
	popped, err := t.call.Wait(context.Background())
	dispatcher.hooks.Popped(popped)
	for i := range popped.Leases {
		popped.Leases[i].Store = t.asked
	}
	if !t.Reserves && store.KindOf(err) == store.NoAnswer {
		dispatcher.hooks.Lost(min(t.n, store.MaxPop))
		err = fmt.Errorf("%w: %w", ErrLost, err)
	}
	return popped, err
}

// done enters what is known of the queues now, gives the callers their jobs, and answers those who asked.
func (t *poll) done(popped store.Popped, err error) {
	isEmpty := t.learn(popped, err)
	t.partition.setAway(err != nil && store.Temporary(err))
	if t.multi != nil && isEmpty && len(t.multi.pending) > 0 {
		for _, p := range t.multi.pending[:len(t.queues)] {
			p.found(nil)
		}
		t.multi.pending = t.multi.pending[len(t.queues):]
	}
	jobs := Jobs{popped.Jobs, popped.Leases, t.askedAt}
	for i, c := range t.callers {
		c.release(jobs.cut(t.wants[i]), err)
	}
	switch {
	case t.multi == nil:
		t.queues[0].end(t.pending, t.Reserves, isEmpty, err)
	case isEmpty:
		t.multi.pollNext()
	}
	for _, l := range t.queues {
		l.goOn()
	}
	t.partition.dispatcher.unblock(t.partition.node)
}

// learn enters what the answer tells of the queues, and reports whether all are empty.
func (t *poll) learn(popped store.Popped, err error) (allEmpty bool) {
	entered := popped.Entered && t.epoch == t.partition.listener.epoch
	room, rest, allEmpty := t.n, popped.Jobs, true
	for i, l := range t.queues {
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
			t.partition.dispatcher.stock.learn(&t.queues[i], asked, got, left, held, popped.More, t.multi != nil && t.multi.aimed)
		}
		isEmpty := l.learn(asked, got, left, entered && !held && (t.enter.Always || got < asked), popped.More, err, l.wakes)
		switch {
		case held && l.waitQueue.wakes == l.wakes:
			l.hold(popped.Held[i], entered)
		case l.waitQueue.entered:
			l.unthrottle()
		}
		allEmpty = allEmpty && isEmpty
	}
	return allEmpty
}

// end ends a poll of the queue. Those who asked are told what is known from it, though it may have been
// for others, who are ahead of them; but one that was held back tells nothing of what can be popped. The queue keeps its turn.
func (l *waitQueue) end(pending []*position, reserved, isEmpty bool, err error) {
	l.busy = false
	if len(pending) > 0 {
		if l.partition.dispatcher.polling[l.topic]--; l.partition.dispatcher.polling[l.topic] == 0 {
			delete(l.partition.dispatcher.polling, l.topic)
		}
	}
	l.requeue()
	var still []*position
	for _, p := range pending {
		switch {
		case !p.asks: // its caller has its answer, or was told of the error
		case isEmpty && (l.held == nil || reserved == p.kind().Reserves) || err != nil && p.caller.isFree():
			p.found(err)
			p.caller.pollNext()
		default:
			still = append(still, p)
		}
	}
	l.pending = append(still, l.pending...)
}

// goOn has the queue asked again, or ends its turn. One that waits and is not entered is looked at soon.
func (l *waitQueue) goOn() {
	if l.callers == 0 {
		l.retire()
		return
	}
	l.enqueue()
	if e := l.partition.listener; e.state == subscribed && !l.entered && l.held == nil && !l.busy && l.ready == 0 && !l.isPending() {
		e.signal()
	}
}

// unblock has the queues asked whose callers were all claimed. The round trips of all nodes but by, whose are
// under way, are woken if they have work now.
func (t *Dispatcher) unblock(by *node) {
	held := t.blocked
	t.blocked = nil
	for _, l := range held {
		l.blocked = false
		l.goOn()
	}
	for _, n := range t.nodes {
		if n != by {
			n.batches.Wake()
		}
	}
}
