package wait

import (
	"context"
	"time"

	"github.com/mix-basic/delayer/internal/coalesce"
	"github.com/mix-basic/delayer/internal/store"
)

const (
	// MaxBatches is how many round trips that poll jobs are under way to a node at a time.
	MaxBatches = 4
	// maxTogether is how many polls go with one. A large job keeps those behind it waiting.
	maxTogether = 16
	// maxQueues is how many topics one poll is of.
	maxQueues = 250
	// shunFor is for how long others are asked before a node that did not answer: who asks it may wait for seconds. After that
	// its turn comes again, as it may have come back, with jobs.
	shunFor = 5 * time.Second
)

// node are the partitions that the same connections lead to: they share round trips, and one subscription.
type node struct {
	dispatcher *Dispatcher
	id         any // that of the stores
	partitions []*partition
	batches    *coalesce.Coalescer
	listener   *listener
	turns      []poller  // whose turn comes, in their order
	probes     []*probe  // to be sent
	woken      []wakeUp  // that we have no caller for
	isAway     bool      // it did not answer when it was last asked
	shunned    time.Time // until when others are asked before it
	dissolved  bool      // there are others in its position
}

// wakeUp is that of a topic.
type wakeUp struct {
	partition *partition
	topic     string
}

// poller is a queue, or a caller of several topics, that a poll is to be made for.
type poller interface {
	// isDue reports whether it can be now.
	isDue() bool
	// at is the partition that is to be asked.
	at() *partition
	// dequeued ends its turn.
	dequeued()
	// newPoll claims the callers.
	newPoll() *poll
}

// newNode makes one without partitions, whose connections are those of the store.
func newNode(t *Dispatcher, s *store.Store) *node {
	n := &node{dispatcher: t, id: s.Node()}
	n.batches = coalesce.New(t.owner, s.Pipeline, &t.mu, n, MaxBatches)
	n.listener = newListener(n)
	return n
}

// setAway enters whether the node did not answer.
func (n *node) setAway(away bool) {
	n.isAway, n.shunned = away, time.Time{}
	if away {
		n.shunned = time.Now().Add(shunFor)
	}
}

// add makes a partition of another store.
func (n *node) add(s *store.Store) *partition {
	src := &partition{node: n, dispatcher: n.dispatcher, store: s, index: len(n.dispatcher.partitions), queues: map[string]*waitQueue{}}
	n.partitions = append(n.partitions, src)
	n.dispatcher.partitions = append(n.dispatcher.partitions, src)
	return src
}

// waited are the queues that have callers, those of each partition together.
func (n *node) waited() (queues []*waitQueue) {
	for _, s := range n.partitions {
		queues = append(queues, s.waited()...)
	}
	return queues
}

// forget is that of its partitions.
func (n *node) forget(after time.Duration) {
	for _, s := range n.partitions {
		s.forget(after)
	}
}

// Waiting reports whether anything is to be sent.
func (n *node) Waiting() bool {
	for len(n.turns) > 0 && !n.turns[0].isDue() {
		n.pop()
	}
	return len(n.turns) > 0 || len(n.probes) > 0 || len(n.woken) > 0
}

// enqueue has a poll made for the poller. Unless it comes from a poll of this node, somebody has to wake the
// round trips.
func (n *node) enqueue(a poller) { n.turns = append(n.turns, a) }

// pop dequeues the first poller.
func (n *node) pop() poller {
	a := n.turns[0]
	n.turns[0] = nil
	n.turns = n.turns[1:]
	a.dequeued()
	return a
}

// Next dequeues the polls and probes of the next round trip and returns the number of their callers. The polls want
// about as many jobs as one pop polls at most: Redis may do without a break what comes in one piece.
func (n *node) Next() (callers int, call func(*store.Pipeline, error)) {
	batch := &batch{node: n, probes: n.probes, woken: n.woken}
	n.probes, n.woken = nil, nil
	for jobs := 0; n.Waiting() && len(batch.polls) < maxTogether && jobs < store.MaxPop; {
		t := n.pop().newPoll()
		t.enter = n.listener.enter(t)
		batch.polls = append(batch.polls, t)
		jobs += t.n
		callers += len(t.callers)
	}
	for _, s := range batch.probes {
		s.begin()
		callers++
	}
	return callers + len(batch.woken), batch.make
}

// batch is a round trip.
type batch struct {
	node   *node
	polls  []*poll
	probes []*probe
	woken  []wakeUp // to be passed on
}

// make makes the polls and probes, and passes on what we were woken for in vain. err is why there is no connection.
func (t *batch) make(p *store.Pipeline, err error) {
	var passing []*store.Call[struct{}]
	if err == nil {
		p.Hasty = len(t.node.partitions) > 1
		for _, t := range t.polls {
			t.send(p)
		}
		for _, s := range t.probes {
			s.send(p)
		}
		passing = t.passOn(p)
	}
	dispatcher := t.node.dispatcher
	for _, t := range t.polls {
		var popped store.Popped
		failed := err
		if err == nil {
			popped, failed = t.receive(dispatcher)
		}
		dispatcher.mu.Lock()
		t.done(popped, failed)
		dispatcher.mu.Unlock()
	}
	for _, s := range t.probes {
		var found store.Looked
		failed := err
		if err == nil && s.sent != nil {
			found, failed = s.sent.Wait(context.Background())
		}
		dispatcher.mu.Lock()
		s.done(found, failed)
		dispatcher.mu.Unlock()
	}
	for _, pass := range passing {
		pass.Wait(context.Background()) // whether that went well is nobody's concern: a check finds the jobs
	}
	dispatcher.mu.Lock()
	defer dispatcher.mu.Unlock()
	if t.node.dissolved {
		dispatcher.wakeAll()
	}
}

// passOn sends the wake-ups, those of each partition together.
func (t *batch) passOn(p *store.Pipeline) (sent []*store.Call[struct{}]) {
	topics := map[*partition][]string{}
	for _, w := range t.woken {
		topics[w.partition] = append(topics[w.partition], w.topic)
	}
	for s, theirs := range topics {
		sent = append(sent, s.store.Wake(theirs).Send(p))
	}
	return sent
}
