package take

import (
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// source are the lines of the jobs of one store: one partition.
type source struct {
	*node  // as regroup has it
	taker  *Taker
	store  *store.Store
	index  int // in Taker.sources
	lines  map[string]*line
	survey *survey // that is to be sent; nil if there is none
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
func (s *source) callers() (all []*caller) {
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

// wake enters that the topic has jobs, of which we alone were told.
func (s *source) wake(topic string, jobs int) {
	s.taker.mu.Lock()
	defer s.taker.mu.Unlock()
	s.taker.stock.raise(s, topic, jobs)
	if l := s.lines[topic]; l != nil {
		l.wake(jobs, true)
	} else {
		s.passOn(topic)
	}
	s.trips.Wake()
}

// passOn has the next client woken for jobs of the topic.
func (s *source) passOn(topic string) {
	s.woken = append(s.woken, wakeUp{s, topic})
	s.trips.Wake()
}

// forget drops the lines that have had no callers for so long. If we are woken for one of these, we
// pass the wake-up on. Where we stand for a topic of the stock we go on standing, or each probe would have to register us anew.
func (s *source) forget(after time.Duration) {
	for topic, l := range s.lines {
		if l.callers > 0 || l.busy || l.queued || time.Since(l.left) < after {
			continue
		}
		if known := s.taker.stock.of(topic) != nil && time.Since(l.enteredAt) < enterAgain; after == 0 || !known {
			l.unhold()
			delete(s.lines, topic)
		}
	}
}

// waited are the lines that have callers, without those that the first caller is about to probe.
func (s *source) waited() (lines []*line) {
	for _, l := range s.lines {
		if l.callers > 0 && !l.first.caller.isProbing() {
			lines = append(lines, l)
		}
	}
	return lines
}
