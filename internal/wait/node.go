package wait

import (
	"time"

	"github.com/mix-basic/delayer/internal/batch"
	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
)

const (
	// MaxBatches is how many round trips that take jobs are under way to a node at a time.
	MaxBatches = 4
	// maxTogether is how many polls go with one. A large job keeps those behind it waiting.
	maxTogether = 16
	// shunFor is for how long others are polled before a node that did not answer: who polls it may wait for seconds. After that
	// its turn comes again, as it may have come back, with jobs.
	shunFor = 5 * time.Second
)

// node are the partitions that the same connections lead to: they share round trips, and one subscription.
type node struct {
	dispatcher  *Dispatcher
	id          *redisconn.Node // that of the stores
	partitions  []*partition
	batches     *batch.Sender
	listener    *listener
	turns       []poller  // whose turn comes, in their order
	probes      []*probe  // to be sent
	woken       []wakeUp  // that we have no caller for
	isAway      bool      // it did not answer when it was last polled
	shunned     time.Time // until when others are polled before it
	isDissolved bool      // there are others in its place
}

// partition has the queues of the jobs of one store.
type partition struct {
	*node      // as regroup has it
	dispatcher *Dispatcher
	store      *store.Store
	index      int // in Dispatcher.partitions
	queues     map[string]*waitQueue
	probe      *probe // that is to be sent; nil if there is none
}

func (s *partition) itsStore() *store.Store { return s.store }

// wakeUp is that of a topic.
type wakeUp struct {
	partition *partition
	topic     string
}

// poller is a queue, or a caller of several topics, that a poll is to be made for.
type poller interface {
	// isDue reports whether it can be now.
	isDue() bool
	// at is the partition that is to be polled.
	at() *partition
	// newPoll claims the callers. It ends the poller's turn.
	newPoll() *poll
	// skipped ends its turn without a poll.
	skipped()
}

// newNode makes the node of these partitions.
func newNode(d *Dispatcher, partitions []*partition) *node {
	n := &node{dispatcher: d, id: partitions[0].store.Node(), partitions: partitions}
	n.batches = batch.NewSender(d.owner, partitions[0].store.Pipeline, &d.mu, n, MaxBatches)
	n.listener = newListener(n)
	for _, s := range partitions {
		s.node = n
	}
	return n
}

// setAway notes whether the node did not answer.
func (n *node) setAway(away bool) {
	n.isAway, n.shunned = away, time.Time{}
	if away {
		n.shunned = time.Now().Add(shunFor)
	}
}

// waited are the queues that have callers, those of each partition together.
func (n *node) waited() (queues []*waitQueue) {
	for _, s := range n.partitions {
		queues = append(queues, s.waited()...)
	}
	return queues
}

// unheard notes that nobody may wake us for any topic.
func (n *node) unheard() {
	for _, s := range n.partitions {
		for _, q := range s.queues {
			q.on(unheard, 0)
		}
	}
}

// forget forgets queues of all partitions.
func (n *node) forget(after time.Duration) {
	for _, s := range n.partitions {
		s.forget(after)
	}
}

// Waiting implements batch.Queue. Unless a poller comes from a poll of this node, somebody has to wake the round trips.
func (n *node) Waiting() bool {
	for len(n.turns) > 0 && !n.turns[0].isDue() {
		skipped := n.turns[0]
		n.turns[0] = nil
		n.turns = n.turns[1:]
		skipped.skipped()
	}
	return len(n.turns) > 0 || len(n.probes) > 0 || len(n.woken) > 0
}

// Next implements batch.Queue: it makes the polls and probes of the next round trip. The polls want
// about as many jobs as one pop takes at most: Redis may do without a break what comes in one piece.
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

// queue is the topic's queue.
func (s *partition) queue(topic string) *waitQueue {
	q := s.queues[topic]
	if q == nil {
		q = &waitQueue{partition: s, topic: topic}
		s.queues[topic] = q
	}
	return q
}

// callers are all who have a position in a queue.
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

// wake notes that the topic has jobs, of which we alone were told.
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

// passOn has the next client woken for jobs of the topic.
func (s *partition) passOn(topic string) {
	s.woken = append(s.woken, wakeUp{s, topic})
	s.batches.Wake()
}

// forget drops the queues that have had no callers for so long. If we are woken for one of these, we
// pass the wake-up on. For a topic of the stock we stay registered, or each probe would have to register us anew.
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

// waited are the queues that have callers, without those that the first caller is about to probe.
func (s *partition) waited() (queues []*waitQueue) {
	for _, q := range s.queues {
		if q.callers > 0 && !q.first.caller.isProbing() {
			queues = append(queues, q)
		}
	}
	return queues
}
