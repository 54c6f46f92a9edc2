package batch

import (
	"context"
	"runtime"
	"sync"

	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
)

// Owner is the Client whose calls share batches.
type Owner struct {
	Running *sync.WaitGroup // counts the goroutines that send batches
	Closed  error           // why waiting calls fail once it is closed; its stores end with the same error
}

// Queue holds the callers waiting for the next batch. Its methods are called with the Sender's mutex held.
type Queue interface {
	// Waiting reports whether anybody waits.
	Waiting() bool
	// Next dequeues the callers of the next batch and returns their number: 0 if all have left meanwhile. do makes
	// their calls, or tells the callers err if there is no connection.
	Next() (callers int, do func(p *store.Pipeline, err error))
}

// Sender sends a Queue's batches, a few at a time. While few are under way a caller goes at once; callers that come
// meanwhile go together in the next batch.
type Sender struct {
	owner    *Owner
	connect  func(context.Context) (*store.Pipeline, error)
	mu       *sync.Mutex // guards the queue and underWay
	queue    Queue
	most     int // batches under way at a time
	underWay int
}

// NewSender makes a Sender of at most that many batches at a time, each on a connection of connect's. mu guards the queue.
func NewSender(o *Owner, connect func(context.Context) (*store.Pipeline, error), mu *sync.Mutex, queue Queue, most int) *Sender {
	return &Sender{owner: o, connect: connect, mu: mu, queue: queue, most: most}
}

// Wake starts a batch for the waiting callers. The mutex must be held. Waiting may wake as well, and comes first.
func (s *Sender) Wake() {
	if s.queue.Waiting() && s.underWay < s.most {
		s.underWay++
		s.owner.Running.Add(1)
		go s.work()
	}
}

// work sends batches as long as anybody waits for one.
func (s *Sender) work() {
	defer s.owner.Running.Done()
	for s.isWanted() {
		p, err := s.connect(context.Background())
		if s.send(p, err) > 1 {
			// Let the callers that were served run first: if they call again at once, they share
			// the next batch.
			runtime.Gosched()
		}
	}
}

func (s *Sender) isWanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue.Waiting() {
		return true
	}
	s.underWay--
	return false
}

// TryLead reports whether a caller may send a batch itself: it must call Lead then. The mutex must be held.
func (s *Sender) TryLead() bool {
	if s.underWay >= s.most {
		return false
	}
	s.underWay++
	return true
}

// Lead sends a batch in the caller's own goroutine, which is a fifth faster for a lone caller, and leaves callers that came
// meanwhile to work. The end of ctx ends the wait for a connection.
func (s *Sender) Lead(ctx context.Context) {
	p, err := s.connect(ctx)
	if err == nil || !redisconn.IsOver(ctx) { // else it is an error of this caller's only
		s.send(p, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underWay--
	s.Wake()
}

// send sends a batch and returns its number of callers. They are chosen when there is a connection, without callers that have
// left by then, and with callers that have come.
func (s *Sender) send(p *store.Pipeline, err error) int {
	s.mu.Lock()
	callers, do := s.queue.Next()
	s.mu.Unlock()
	if callers > 0 {
		do(p, err)
	}
	if err == nil {
		p.Close()
	}
	return callers
}
