package take

import (
	"context"

	"github.com/mix-basic/delayer/internal/coalesce"
	"github.com/mix-basic/delayer/internal/store"
)

const (
	// MaxTrips is how many round trips that take jobs are under way at a time.
	MaxTrips = 4
	// maxTogether is how many takes go with one. A large job keeps those behind it waiting.
	maxTogether = 16
	// maxLines is how many topics one take is of.
	maxLines = 250
)

// source are the lines of the jobs of one store.
type source struct {
	taker    *Taker
	store    *store.Store
	trips    *coalesce.Coalescer
	listener *listener
	lines    map[string]*line
	queue    []asker  // whose turn comes, in their order
	woken    []string // topics that we were woken for, and have no caller for
}

// asker is a line, or a caller of several topics, that a take is to be made for.
type asker interface {
	// isDue reports whether it can be now.
	isDue() bool
	// dequeued ends its turn.
	dequeued()
	// newTake claims the callers.
	newTake() *take
}

func newSource(t *Taker, s *store.Store) *source {
	src := &source{taker: t, store: s, lines: map[string]*line{}}
	src.trips = coalesce.New(t.owner, s, &t.mu, src, MaxTrips)
	src.listener = newListener(src)
	return src
}

func (s *source) line(topic string) *line {
	l := s.lines[topic]
	if l == nil {
		l = &line{source: s, topic: topic}
		s.lines[topic] = l
	}
	return l
}

// callers are all who have a place in a line.
func (s *source) callers() []*caller {
	var all []*caller
	seen := map[*caller]bool{}
	for _, l := range s.lines {
		for p := l.first; p != nil; p = p.next {
			if !seen[p.caller] {
				seen[p.caller] = true
				all = append(all, p.caller)
			}
		}
	}
	return all
}

// passOn has the next client woken for jobs of the topic.
func (s *source) passOn(topic string) {
	s.woken = append(s.woken, topic)
	s.trips.Wake()
}

// Waiting reports whether anything is to be sent.
func (s *source) Waiting() bool {
	for len(s.queue) > 0 && !s.queue[0].isDue() {
		s.pop()
	}
	return len(s.queue) > 0 || len(s.woken) > 0
}

// enqueue has a take made for the asker. Unless it comes from a take of this source, somebody has to wake the
// round trips.
func (s *source) enqueue(a asker) { s.queue = append(s.queue, a) }

// pop dequeues the first asker.
func (s *source) pop() asker {
	a := s.queue[0]
	s.queue[0] = nil
	s.queue = s.queue[1:]
	a.dequeued()
	return a
}

// Next dequeues the takes of the next round trip and returns the number of their callers. They want
// about as many jobs as t pop takes at most: Redis may do without a break what comes in t piece.
func (s *source) Next() (callers int, call func(*store.Pipeline, error)) {
	var takes []*take
	for jobs := 0; s.Waiting() && len(s.queue) > 0 && len(takes) < maxTogether && jobs < store.MaxPop; {
		t := s.pop().newTake()
		t.enter = s.listener.enter(t)
		takes = append(takes, t)
		jobs += t.n
		callers += len(t.callers)
	}
	woken := s.woken
	s.woken = nil
	return callers + len(woken), func(p *store.Pipeline, err error) { s.send(p, err, takes, woken) }
}

// send makes the takes, and passes on what we were woken for in vain. err is why there is no connection.
func (s *source) send(p *store.Pipeline, err error, takes []*take, woken []string) {
	var pass *store.Call[struct{}]
	if err == nil {
		for _, t := range takes {
			t.send(p)
		}
		if len(woken) > 0 {
			pass = s.store.Wake(woken).Send(p)
		}
	}
	for _, t := range takes {
		var popped store.Popped
		failed := err
		if err == nil {
			popped, failed = t.receive(s.taker)
		}
		s.taker.mu.Lock()
		t.done(popped, failed)
		s.taker.mu.Unlock()
	}
	pass.Wait(context.Background()) // whether that went well is nobody's concern: a look finds the jobs
}
