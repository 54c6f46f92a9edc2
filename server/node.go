package server

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// sureEvery is how often a peek asks whether the node takes writes, and what time it is.
const sureEvery = 5 * time.Second

// lastTurn is in how many turns of polledInterval each mover of a node is asked what falls due, while it hears of pushes.
const lastTurn = 10

// node has the movers whose partitions are on one Redis, or on one node of a cluster. It makes one exchange after the
// other, so that the stall budget is that of the node: the movers whose passes are under way take turns.
type node struct {
	*running
	key     any // what its movers' stores say
	alarm   *alarm
	outages *outages

	sure time.Time // when it was last asked what time it is, and whether it takes writes

	counted time.Time // when countAcked was last done
	worked  bool      // since then, or it found news then

	pauses pauses

	mu       sync.Mutex
	movers   []*mover
	listener *store.Subscription // nil before there was one
}

// running is what a Server has while it runs.
type running struct {
	*Server
	ctx, work context.Context // until the stop; until what is under way has to end, too
	began     time.Time
	loops     sync.WaitGroup
	listening sync.WaitGroup

	mu    sync.Mutex
	nodes map[any]*node
}

// place gives movers to the nodes on which their partitions are now.
func (r *running) place(movers ...*mover) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var begin []*node
	for _, m := range movers {
		key := m.store.Node() // which may be another one a moment later
		n := r.nodes[key]
		if n == nil {
			n = r.newNode(key)
			begin = append(begin, n)
		}
		n.take(m)
	}
	for _, n := range begin {
		n.start()
	}
}

func (r *running) newNode(key any) *node {
	n := &node{running: r, key: key, worked: true, alarm: &alarm{timer: newTimer()}, outages: r.outages}
	if len(r.movers) > 1 {
		n.outages = newOutages(r.log)
	}
	r.nodes[key] = n
	return n
}

// start has the node work until the stop, or until it has no movers.
func (n *node) start() {
	ctx, stop := context.WithCancel(n.ctx)
	n.listening.Go(func() { n.listen(ctx) })
	n.loops.Go(func() {
		defer stop()
		defer n.alarm.timer.close()
		defer context.AfterFunc(n.ctx, func() { n.alarm.wakeBy(time.Now()) })()
		n.loop()
	})
}

// take adds a mover, which has a look at once.
func (n *node) take(m *mover) {
	n.mu.Lock()
	n.movers = append(n.movers, m)
	if n.listener != nil {
		n.listener.Add(m.store.Keys().FirstDue())
	}
	n.mu.Unlock()
	m.node.Store(n)
	m.lookBy(time.Now())
	n.missPushes(m)
}

// here are the movers that are on the node.
func (n *node) here() []*mover {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.movers)
}

func (n *node) loop() {
	defer n.endPasses()
	for n.ctx.Err() == nil {
		movers := n.here()
		n.round(movers)
		if n.work.Err() != nil || n.isOver(movers) {
			return
		}
		if next, now := nextOf(n.here()); !now { // those that were handed over are others' now
			n.alarm.sleepUntil(earlier(next, n.pauses.next))
		}
	}
}

// endPasses has passes under way say what they have done: they come to no next step.
func (n *node) endPasses() {
	for _, m := range n.here() {
		if m.pass != nil {
			m.pass.end(n.ctx, nil)
			m.pass = nil
		}
	}
}

// round has each mover that is due for it, or whose pass is under way, make an exchange.
func (n *node) round(movers []*mover) {
	started := time.Now()
	n.peek(movers, started)
	var met trouble
	for _, m := range movers {
		if m.pass == nil && !isBy(m.wakes().look, started) {
			continue
		}
		if m.pass == nil {
			m.awake()
			m.pass = m.newPass(n.work)
		}
		if m.pass.step(n.ctx) {
			continue
		}
		p := m.pass
		m.pass = nil
		if n.work.Err() != nil {
			return
		}
		if p.err != nil || len(n.outages.running)+len(m.outages.running) > 0 {
			met.add(p.err)
			n.report(m, p.err)
		}
		n.worked = n.worked || p.moved
		if p.err == nil {
			m.standBy.passed(p.moved)
			m.goOnSweeping(n.work)
		}
		m.plan(p.started, p.next, p.err)
	}
	if len(n.Server.movers) > 1 {
		n.countAcked(movers, started)
	}
	if !met.inPartition { // else it would wait for the same
		n.keepPaused(movers, started)
	}
	if isFirst := n.Server.movers[0].node.Load() == n; isFirst && !met.inNode {
		n.beat(n.work, started)
	}
}

// trouble is what passes of a round have met that may be over soon: what asks the same partitions, or the same node, would wait for it, too.
type trouble struct{ inPartition, inNode bool }

// add adds a pass's error.
func (t *trouble) add(err error) {
	if err != nil && store.Temporary(err) {
		t.inPartition, t.inNode = true, t.inNode || !store.OfOneSlot(err)
	}
}

// peek asks what falls due next in the partitions of movers that wait for that. Where it can't be told a
// pass says why.
func (n *node) peek(movers []*mover, now time.Time) {
	var asking []*mover
	var stores []*store.Store
	isDue := false
	for _, m := range movers {
		if w := m.wakes(); m.pass == nil && isBy(w.mayPeek, now) && !isBy(w.look, now) {
			asking, stores = append(asking, m), append(stores, m.store)
			isDue = isDue || isBy(w.peek, now)
		}
	}
	if !isDue {
		return
	}
	ctx, cancel := context.WithTimeout(n.work, batchWait)
	defer cancel()
	surely := now.Sub(n.sure) >= sureEvery
	found, err := store.Peek(ctx, stores, surely)
	if err == nil {
		n.observe(func(o Observer) { o.Passed(time.Since(now), nil) })
	}
	if err == nil && surely {
		n.sure = now
	}
	answered := time.Now() // so that nothing seems to be overdue that is not
	for i, m := range asking {
		planned := m.peeking()
		if err != nil || found.First[i].Err != nil {
			m.lookBy(now)
			continue
		}
		m.peeked(found.Now, answered, found.First[i])
		m.goOnSweeping(n.work)
		m.tickBy(m.nextTick(later(now, planned))) // a turn that was taken early is not taken again when its time comes
	}
}

// countAcked has the last hour, which is partition 0's, know how many jobs of the others are acknowledged. It asks no more often
// than that is kept, and not while nothing happens.
func (n *node) countAcked(movers []*mover, now time.Time) {
	if !n.worked || now.Sub(n.counted) < renewEvery {
		return
	}
	n.counted, n.worked = now, false
	ctx, cancel := context.WithTimeout(n.work, batchWait)
	defer cancel()
	var stores []*store.Store
	for _, m := range movers {
		stores = append(stores, m.store)
	}
	acked, err := store.AckedOf(ctx, stores)
	for i, m := range movers {
		count := int64(-1)
		if err == nil {
			count = acked[i]
		}
		if m.acked.Swap(count) != count {
			n.worked = true
		}
	}
}

// noRedis is what the log says of a Redis that does not answer, or refuses a pass.
const noRedis = "Redis does not work for us"

// report tells the log what became of a pass. That the node does not answer is said once for all of its movers.
func (n *node) report(m *mover, err error) {
	if err != nil && !store.Temporary(err) {
		m.outages.report(noRedis, err)
		return
	}
	n.outages.report(noRedis, err)
	if m.outages != n.outages && err == nil {
		m.outages.report(noRedis, nil)
	}
}

// turnOf is the mover's first turn after t. Turns are spread over lastTurn intervals, or as many as there are movers.
func (n *node) turnOf(m *mover, t time.Time) time.Time {
	movers := n.here()
	turns := max(min(len(movers), lastTurn), 1)
	every := n.polledInterval()
	cycle := time.Duration(turns) * every
	at := time.Duration(slices.Index(movers, m)%turns) * every
	since := t.Sub(n.began)
	return n.began.Add((since-at+cycle)/cycle*cycle + at)
}

// isOver hands over the movers whose partitions have gone to other nodes, and reports whether none is left.
func (n *node) isOver(movers []*mover) bool {
	for _, m := range movers {
		if m.pass == nil && m.store.Node() != n.key {
			n.drop(m)
			n.place(m)
		}
	}
	n.running.mu.Lock()
	defer n.running.mu.Unlock()
	if len(n.here()) > 0 {
		return false
	}
	delete(n.nodes, n.key)
	return true
}

func (n *node) drop(m *mover) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.movers = slices.DeleteFunc(n.movers, func(other *mover) bool { return other == m })
	if n.listener != nil {
		n.listener.Remove(m.store.Keys().FirstDue())
	}
}

// nextOf is when the first of the movers has something to do; now if a pass is under way.
func nextOf(movers []*mover) (next time.Time, now bool) {
	for _, m := range movers {
		w := m.wakes()
		next = earlier(next, earlier(w.look, w.peek))
		now = now || m.pass != nil
	}
	return next, now
}

// isBy reports whether t is set, and not after now.
func isBy(t, now time.Time) bool { return !t.IsZero() && !t.After(now) }
