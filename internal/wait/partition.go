package wait

import (
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// partition are the queues of the jobs of one store: one partition.
type partition struct {
	*node      // as regroup has it
	dispatcher *Dispatcher
	store      *store.Store
	index      int // in Dispatcher.partitions
	queues     map[string]*waitQueue
	probe      *probe // that is to be sent; nil if there is none
}

func (s *partition) queue(topic string) *waitQueue {
	l := s.queues[topic]
	if l == nil {
		l = &waitQueue{partition: s, topic: topic}
		s.queues[topic] = l
	}
	return l
}

// callers are all who have a position in a queue.
func (s *partition) callers() (all []*caller) {
	seen := map[*caller]bool{}
	for _, l := range s.queues {
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
func (s *partition) wake(topic string, jobs int) {
	s.dispatcher.mu.Lock()
	defer s.dispatcher.mu.Unlock()
	s.dispatcher.stock.raise(s, topic, jobs)
	if l := s.queues[topic]; l != nil {
		l.wake(jobs, true)
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
// pass the wake-up on. Where we stand for a topic of the stock we go on standing, or each probe would have to register us anew.
func (s *partition) forget(after time.Duration) {
	for topic, l := range s.queues {
		if l.callers > 0 || l.busy || l.queued || time.Since(l.left) < after {
			continue
		}
		if known := s.dispatcher.stock.of(topic) != nil && time.Since(l.registeredAt) < registerAgain; after == 0 || !known {
			l.unthrottle()
			delete(s.queues, topic)
		}
	}
}

// waited are the queues that have callers, without those that the first caller is about to probe.
func (s *partition) waited() (queues []*waitQueue) {
	for _, l := range s.queues {
		if l.callers > 0 && !l.first.caller.isProbing() {
			queues = append(queues, l)
		}
	}
	return queues
}
