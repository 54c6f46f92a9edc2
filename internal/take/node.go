package take

import (
	"context"
	"time"

	"github.com/mix-basic/delayer/internal/coalesce"
	"github.com/mix-basic/delayer/internal/store"
)

const (
	// MaxTrips is how many round trips that take jobs are under way to a node at a time.
	MaxTrips = 4
	// maxTogether is how many takes go with one. A large job keeps those behind it waiting.
	maxTogether = 16
	// maxLines is how many topics one take is of.
	maxLines = 250
	// shunFor is for how long others are asked before a node that did not answer: who asks it may wait for seconds. After that
	// its turn comes again, as it may have come back, with jobs.
	shunFor = 5 * time.Second
)

// node are the sources that the same connections lead to: they share round trips, and one subscription.
type node struct {
	taker     *Taker
	id        any // that of the stores
	sources   []*source
	trips     *coalesce.Coalescer
	listener  *listener
	queue     []asker   // whose turn comes, in their order
	surveys   []*survey // to be sent
	woken     []wakeUp  // that we have no caller for
	isAway    bool      // it did not answer when it was last asked
	shunned   time.Time // until when others are asked before it
	dissolved bool      // there are others in its place
}

// wakeUp is that of a topic.
type wakeUp struct {
	source *source
	topic  string
}

// asker is a line, or a caller of several topics, that a take is to be made for.
type asker interface {
	// isDue reports whether it can be now.
	isDue() bool
	// at is the source that is to be asked.
	at() *source
	// dequeued ends its turn.
	dequeued()
	// newTake claims the callers.
	newTake() *take
}

// newNode makes one without sources, whose connections are those of the store.
func newNode(t *Taker, s *store.Store) *node {
	n := &node{taker: t, id: s.Node()}
	n.trips = coalesce.New(t.owner, s.Pipeline, &t.mu, n, MaxTrips)
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

// add makes a source of another store.
func (n *node) add(s *store.Store) *source {
	src := &source{node: n, taker: n.taker, store: s, index: len(n.taker.sources), lines: map[string]*line{}}
	n.sources = append(n.sources, src)
	n.taker.sources = append(n.taker.sources, src)
	return src
}

// waited are the lines that have callers, those of each source together.
func (n *node) waited() (lines []*line) {
	for _, s := range n.sources {
		lines = append(lines, s.waited()...)
	}
	return lines
}

// forget is that of its sources.
func (n *node) forget(after time.Duration) {
	for _, s := range n.sources {
		s.forget(after)
	}
}

// Waiting reports whether anything is to be sent.
func (n *node) Waiting() bool {
	for len(n.queue) > 0 && !n.queue[0].isDue() {
		n.pop()
	}
	return len(n.queue) > 0 || len(n.surveys) > 0 || len(n.woken) > 0
}

// enqueue has a take made for the asker. Unless it comes from a take of this node, somebody has to wake the
// round trips.
func (n *node) enqueue(a asker) { n.queue = append(n.queue, a) }

// pop dequeues the first asker.
func (n *node) pop() asker {
	a := n.queue[0]
	n.queue[0] = nil
	n.queue = n.queue[1:]
	a.dequeued()
	return a
}

// Next dequeues the takes and surveys of the next round trip and returns the number of their callers. The takes want
// about as many jobs as one pop takes at most: Redis may do without a break what comes in one piece.
func (n *node) Next() (callers int, call func(*store.Pipeline, error)) {
	trip := &trip{node: n, surveys: n.surveys, woken: n.woken}
	n.surveys, n.woken = nil, nil
	for jobs := 0; n.Waiting() && len(trip.takes) < maxTogether && jobs < store.MaxPop; {
		t := n.pop().newTake()
		t.enter = n.listener.enter(t)
		trip.takes = append(trip.takes, t)
		jobs += t.n
		callers += len(t.callers)
	}
	for _, s := range trip.surveys {
		s.begin()
		callers++
	}
	return callers + len(trip.woken), trip.make
}

// trip is a round trip.
type trip struct {
	node    *node
	takes   []*take
	surveys []*survey
	woken   []wakeUp // to be passed on
}

// make makes the takes and surveys, and passes on what we were woken for in vain. err is why there is no connection.
func (t *trip) make(p *store.Pipeline, err error) {
	var passing []*store.Call[struct{}]
	if err == nil {
		p.Hasty = len(t.node.sources) > 1
		for _, t := range t.takes {
			t.send(p)
		}
		for _, s := range t.surveys {
			s.send(p)
		}
		passing = t.passOn(p)
	}
	taker := t.node.taker
	for _, t := range t.takes {
		var popped store.Popped
		failed := err
		if err == nil {
			popped, failed = t.receive(taker)
		}
		taker.mu.Lock()
		t.done(popped, failed)
		taker.mu.Unlock()
	}
	for _, s := range t.surveys {
		var found store.Looked
		failed := err
		if err == nil && s.sent != nil {
			found, failed = s.sent.Wait(context.Background())
		}
		taker.mu.Lock()
		s.done(found, failed)
		taker.mu.Unlock()
	}
	for _, pass := range passing {
		pass.Wait(context.Background()) // whether that went well is nobody's concern: a look finds the jobs
	}
	taker.mu.Lock()
	defer taker.mu.Unlock()
	if t.node.dissolved {
		taker.wakeAll()
	}
}

// passOn sends the wake-ups, those of each source together.
func (t *trip) passOn(p *store.Pipeline) (sent []*store.Call[struct{}]) {
	topics := map[*source][]string{}
	for _, w := range t.woken {
		topics[w.source] = append(topics[w.source], w.topic)
	}
	for s, theirs := range topics {
		sent = append(sent, s.store.Wake(theirs).Send(p))
	}
	return sent
}
