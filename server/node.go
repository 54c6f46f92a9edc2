package server

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// lastTurn is the most intervals between two passes of a mover that hears of pushes, while nothing falls due.
const lastTurn = 10

// node runs the movers whose partitions are on one Redis, or on one node of a cluster. It makes one call at a time, and
// movers with a pass in progress take turns, so the stall budget holds for the node and not only for each partition.
type node struct {
	*running
	key     any // identifies the node: see store.Store.Node
	timer   *wakeTimer
	outages *outages

	counted time.Time // when countAcked last ran
	worked  bool      // jobs were moved or acknowledged since

	pauses pauses

	mu       sync.Mutex
	movers   []*mover
	listener *store.Subscription // nil until the first one
}

type running struct {
	*Server
	ctx, work context.Context // done at the stop; done when work in progress must end as well
	began     time.Time
	loops     sync.WaitGroup
	listening sync.WaitGroup

	mu    sync.Mutex
	nodes map[any]*node
}

// place gives each mover to the node that has its partition now.
func (r *running) place(movers ...*mover) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var begin []*node
	for _, m := range movers {
		key := m.store.NodeKey() // it may move again at any time
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
	n := &node{running: r, key: key, worked: true, timer: &wakeTimer{precise: newTimer()}, outages: r.outages}
	if len(r.movers) > 1 {
		n.outages = newOutages(r.log)
	}
	r.nodes[key] = n
	return n
}

// start runs the node until the stop, or until it has no movers.
func (n *node) start() {
	ctx, stop := context.WithCancel(n.ctx)
	n.listening.Go(func() { n.listen(ctx) })
	n.loops.Go(func() {
		defer stop()
		defer n.timer.precise.close()
		defer context.AfterFunc(n.ctx, func() { n.timer.wakeBy(time.Now()) })()
		n.loop()
	})
}

// take adds a mover, which makes a pass at once.
func (n *node) take(m *mover) {
	n.mu.Lock()
	n.movers = append(n.movers, m)
	listener := n.listener
	n.mu.Unlock()
	m.node.Store(n)
	m.passBy(time.Now())
	n.missPushes(m)
	if listener != nil {
		go listener.Add(m.firstDue) // whose connection may hang, while place holds a lock
	}
}

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
		if next, now := nextOf(n.here()); !now { // without those that were handed over
			n.timer.sleepUntil(earlier(next, n.pauses.next))
		}
	}
}

// endPasses ends the passes in progress, so that what they did is logged.
func (n *node) endPasses() {
	for _, m := range n.here() {
		if m.pass != nil {
			m.pass.end(n.ctx, nil)
			m.pass = nil
		}
	}
}

// round makes one call for each mover that is due or has a pass in progress.
func (n *node) round(movers []*mover) {
	started := time.Now()
	var met trouble
	for _, m := range movers {
		if m.pass == nil && !isBy(m.passAt(), started) {
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
			m.goOnSweeping(n.work)
		}
		m.passBy(m.nextPass(p.started, p.next, p.err))
	}
	if len(n.Server.movers) > 1 {
		n.countAcked(movers, started)
	}
	if !met.inPartition { // else this would wait for the same partition
		n.keepPaused(movers, started)
	}
	if isFirst := n.Server.movers[0].node.Load() == n; isFirst && !met.inNode {
		n.writeHeartbeat(n.work, started)
	}
}

// trouble says that passes of a round met a temporary failure, of one partition or of the whole node. Other calls of the
// round would wait for it too, so they are left out.
type trouble struct{ inPartition, inNode bool }

// add takes a pass's error into account.
func (t *trouble) add(err error) {
	if err != nil && store.Temporary(err) {
		t.inPartition, t.inNode = true, t.inNode || !store.OfOneSlot(err)
	}
}

// countAcked reads how many jobs of each partition were acknowledged, for the history that partition 0 keeps. It reads no
// more often than that history is written, and not while the node is idle.
func (n *node) countAcked(movers []*mover, now time.Time) {
	if !n.worked || now.Sub(n.counted) < renewEvery {
		return
	}
	n.counted, n.worked = now, false
	ctx, cancel := context.WithTimeout(n.work, batchWait)
	defer cancel()
	acked, err := store.AckedOf(ctx, storesOf(movers))
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

// noRedis is the log line for a Redis that does not answer or refuses a pass.
const noRedis = "Redis does not work for us"

// report logs the result of a pass. A node that does not answer is logged once for all of its movers.
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

// turnOf is the mover's first turn after t. The turns of a node's movers are spread over lastTurn intervals, or over as many
// intervals as there are movers, if that is less.
func (n *node) turnOf(m *mover, t time.Time) time.Time {
	movers := n.here()
	turns := max(min(len(movers), lastTurn), 1)
	every := n.polledInterval()
	cycle := time.Duration(turns) * every
	at := time.Duration(slices.Index(movers, m)%turns) * every
	since := t.Sub(n.began)
	return n.began.Add((since-at+cycle)/cycle*cycle + at)
}

func storesOf(movers []*mover) (stores []*store.Store) {
	for _, m := range movers {
		stores = append(stores, m.store)
	}
	return stores
}

// isOver hands movers whose partitions have moved to other nodes over to these, and reports whether none is left here.
func (n *node) isOver(movers []*mover) bool {
	for _, m := range movers {
		if m.pass == nil && m.store.NodeKey() != n.key {
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
	n.movers = slices.DeleteFunc(n.movers, func(other *mover) bool { return other == m })
	listener := n.listener
	n.mu.Unlock()
	if listener != nil {
		listener.Remove(m.firstDue)
	}
}

// nextOf is when the first mover has something to do; now reports that a pass is in progress.
func nextOf(movers []*mover) (next time.Time, now bool) {
	for _, m := range movers {
		next = earlier(next, m.passAt())
		now = now || m.pass != nil
	}
	return next, now
}

func isBy(t, now time.Time) bool { return !t.IsZero() && !t.After(now) }
