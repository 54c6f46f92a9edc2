package wait

import (
	"time"

	"github.com/mix-basic/delayer/internal/batch"
	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
)

const (
	// MaxBatches is how many batches that take jobs may be in flight to a node.
	MaxBatches = 4
	// maxTogether is how many polls one batch has. A large job delays those behind it.
	maxTogether = 16
	// shunFor is how long other nodes are polled before one that did not answer, since a poll of it may take seconds. After that
	// it is polled in turn again, because it may be back, with jobs.
	shunFor = 5 * time.Second
)

// node is the partitions on one Redis, or on one node of a cluster: they share batches and one subscription.
type node struct {
	dispatcher  *Dispatcher
	id          *redisconn.Node // of the stores
	partitions  []*partition
	batches     *batch.Sender
	listener    *listener
	turns       []poller  // in the order of their turns
	probes      []*probe  // to be sent
	woken       []wakeUp  // wake-ups that we have no caller for
	isAway      bool      // it did not answer the last poll
	shunned     time.Time // others are polled first until then
	isDissolved bool      // others have replaced it
}

// partition has the wait queues of one store's topics.
type partition struct {
	*node      // set by regroup
	dispatcher *Dispatcher
	store      *store.Store
	index      int // in Dispatcher.partitions
	queues     map[string]*waitQueue
	probe      *probe // waiting to be sent, or nil
}

func (s *partition) itsStore() *store.Store { return s.store }

type wakeUp struct {
	partition *partition
	topic     string
}

// poller is a queue, or a caller of several topics, that needs a poll.
type poller interface {
	// isDue reports whether it can be polled for now.
	isDue() bool
	// at returns the partition to poll.
	at() *partition
	// newPoll claims the callers and ends the poller's turn.
	newPoll() *poll
	// skipped ends the poller's turn without a poll.
	skipped()
}

func newNode(d *Dispatcher, partitions []*partition) *node {
	n := &node{dispatcher: d, id: partitions[0].store.Node(), partitions: partitions}
	n.batches = batch.NewSender(d.owner, partitions[0].store.Pipeline, &d.mu, n, MaxBatches)
	n.listener = newListener(n)
	for _, s := range partitions {
		s.node = n
	}
	return n
}

// setAway records whether the node failed to answer.
func (n *node) setAway(away bool) {
	n.isAway, n.shunned = away, time.Time{}
	if away {
		n.shunned = time.Now().Add(shunFor)
	}
}

// waited returns the queues with callers, grouped by partition.
func (n *node) waited() (queues []*waitQueue) {
	for _, s := range n.partitions {
		queues = append(queues, s.waited()...)
	}
	return queues
}

// unheard records that we may be registered for no topic.
func (n *node) unheard() {
	for _, s := range n.partitions {
		for _, q := range s.queues {
			q.on(unheard, 0)
		}
	}
}

// forget drops unused queues of all partitions.
func (n *node) forget(after time.Duration) {
	for _, s := range n.partitions {
		s.forget(after)
	}
}

// Waiting implements batch.Queue. A poller that was not added by a poll of this node needs a Wake.
func (n *node) Waiting() bool {
	for len(n.turns) > 0 && !n.turns[0].isDue() {
		skipped := n.turns[0]
		n.turns[0] = nil
		n.turns = n.turns[1:]
		skipped.skipped()
	}
	return len(n.turns) > 0 || len(n.probes) > 0 || len(n.woken) > 0
}

// Next implements batch.Queue: it makes the polls and probes of the next batch. Its polls want
// about as many jobs as a single pop may take, because Redis may run a whole batch without a break.
func (n *node) Next() (callers int, call func(*store.Pipeline, error)) {
	b := &pollBatch{node: n, probes: n.probes, woken: n.woken}
	n.probes, n.woken = nil, nil
	for jobs := 0; n.Waiting() && len(b.polls) < maxTogether && jobs < store.MaxPop; {
		next := n.turns[0]
		n.turns[0] = nil
		n.turns = n.turns[1:]
		t := next.newPoll()
		if t.epoch = n.listener.epoch; n.listener.state == subscribed {
			t.register(n.listener)
		}
		b.polls = append(b.polls, t)
		jobs += t.N
		callers += len(t.claims)
	}
	for _, s := range b.probes {
		s.begin()
		callers++
	}
	return callers + len(b.woken), b.make
}

func (s *partition) queue(topic string) *waitQueue {
	q := s.queues[topic]
	if q == nil {
		q = &waitQueue{partition: s, topic: topic}
		s.queues[topic] = q
	}
	return q
}

func (s *partition) callers() (all []*caller) {
	seen := map[*caller]bool{}
	for _, q := range s.queues {
		for p := q.first; p != nil; p = p.next {
			if !seen[p.caller] {
				seen[p.caller] = true
				all = append(all, p.caller)
			}
		}
	}
	return all
}

// wake handles a wake-up, which only we have received.
func (s *partition) wake(topic string, jobs int) {
	s.dispatcher.mu.Lock()
	defer s.dispatcher.mu.Unlock()
	if s.dispatcher.stock != nil {
		s.dispatcher.stock.raise(s, topic, jobs)
	}
	if q := s.queues[topic]; q != nil {
		q.on(woken, jobs)
		q.goOn()
	} else {
		s.passOn(topic)
	}
	s.batches.Wake()
}

func (s *partition) passOn(topic string) {
	s.woken = append(s.woken, wakeUp{s, topic})
	s.batches.Wake()
}

// forget drops the queues that have had no callers for that long. If we are woken for one of these, we
// pass the wake-up on. Topics of the stock are kept, because otherwise every probe would have to register us again.
func (s *partition) forget(after time.Duration) {
	for topic, q := range s.queues {
		if q.callers > 0 || q.state == polling || q.queued || time.Since(q.left) < after {
			continue
		}
		if known := s.dispatcher.stock.of(topic) != nil && time.Since(q.registeredAt) < registerAgain; after == 0 || !known {
			q.on(unheard, 0)
			delete(s.queues, topic)
		}
	}
}

// waited returns the queues that need a check.
func (s *partition) waited() (queues []*waitQueue) {
	for _, q := range s.queues {
		if q.needsCheck() {
			queues = append(queues, q)
		}
	}
	return queues
}

// regroup groups the partitions by their current nodes, if these may have changed: in a cluster the first call finds the nodes,
// and partitions move. A node whose partitions do not stay together is replaced. Its calls in flight still
// end; its registrations are void.
func (d *Dispatcher) regroup() {
	routes := d.partitions[0].store.Routes()
	if routes == d.routes {
		return
	}
	d.routes = routes
	old := d.nodes
	d.nodes = nil
	for _, here := range store.ByNode(d.partitions, (*partition).itsStore) {
		d.nodes = append(d.nodes, d.nodeOf(here))
	}
	for _, n := range old {
		n.dissolve()
	}
	d.wakeAll()
	d.listen()
}

// nodeOf returns the node of these partitions: their present node if it has exactly these, else a new one.
func (d *Dispatcher) nodeOf(partitions []*partition) *node {
	same := partitions[0].node
	for _, s := range partitions {
		if s.node != same || same.id != s.store.Node() || len(same.partitions) != len(partitions) {
			n := newNode(d, partitions)
			n.unheard()
			return n
		}
	}
	return same
}

// dissolve ends a node that has lost partitions, and moves what waited there to their new nodes.
func (n *node) dissolve() {
	for _, s := range n.partitions {
		n.isDissolved = n.isDissolved || s.node != n
	}
	if !n.isDissolved {
		return
	}
	turns, probes, woken := n.turns, n.probes, n.woken
	n.turns, n.probes, n.woken = nil, nil, nil
	for _, a := range turns {
		if a.isDue() {
			to := a.at().node
			to.turns = append(to.turns, a)
		} else {
			a.skipped()
		}
	}
	for _, s := range probes {
		s.partition.probes = append(s.partition.probes, s)
	}
	for _, w := range woken {
		w.partition.woken = append(w.partition.woken, w)
	}
	n.listener.signal()
}

func (d *Dispatcher) wakeAll() {
	for _, n := range d.nodes {
		n.batches.Wake()
	}
}

// listen starts the listeners if callers wait.
func (d *Dispatcher) listen() {
	for _, c := range d.partitions[0].callers() { // a caller is in a queue of each partition
		if c.Waits {
			for _, n := range d.nodes {
				n.listener.start()
			}
			return
		}
	}
}
