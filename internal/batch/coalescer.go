// Package batch lets calls of one kind share round trips to Redis.
package batch

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// Owner is the Client whose calls share round trips.
type Owner struct {
	Running   *sync.WaitGroup // counts the goroutines that make round trips
	Abandoned context.Context // ends their wait for a connection
	Closed    error           // why calls fail then
}

// Coalescer lets callers share round trips. While few are under way a caller goes at once;
// those that come meanwhile gather and go together in the next. The queue decides who gathers,
// and in which order.
type Coalescer struct {
	owner    *Owner
	connect  func(context.Context) (*store.Pipeline, error)
	mu       *sync.Mutex // guards the queue and underWay
	queue    Queue
	most     int // round trips under way at a time
	underWay int
}

// Queue holds the callers waiting for the next round trip. Its methods are called with the
// Coalescer's mutex held.
type Queue interface {
	// Waiting reports whether anybody waits.
	Waiting() bool
	// Next dequeues the callers of the next round trip and returns their number: 0 if all have
	// left meanwhile. call makes the round trip, or tells the callers err if there is no connection.
	Next() (callers int, call func(p *store.Pipeline, err error))
}

// New makes a Coalescer of at most so many round trips at a time, each by a pipeline of connect's. mu guards the queue.
func New(o *Owner, connect func(context.Context) (*store.Pipeline, error), mu *sync.Mutex, queue Queue, most int) *Coalescer {
	return &Coalescer{owner: o, connect: connect, mu: mu, queue: queue, most: most}
}

// Wake starts a round trip for those who wait. The mutex must be held.
func (c *Coalescer) Wake() {
	if c.underWay < c.most && c.queue.Waiting() {
		c.underWay++
		c.owner.Running.Add(1)
		go c.work()
	}
}

// work makes round trips as long as anybody waits for one.
func (c *Coalescer) work() {
	defer c.owner.Running.Done()
	for c.isWanted() {
		p, err := c.connect(c.owner.Abandoned)
		if err != nil && c.owner.Abandoned.Err() != nil {
			err = c.owner.Closed
		}
		if c.roundTrip(p, err) > 1 {
			// Let the callers that were served run first: those who call again at once then share
			// the next round trip.
			runtime.Gosched()
		}
	}
}

// isWanted reports whether anybody waits. If nobody does, work is no longer under way.
func (c *Coalescer) isWanted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue.Waiting() {
		return true
	}
	c.underWay--
	return false
}

// TryLead reports whether a caller may make a round trip itself: it must call Lead then. The
// mutex must be held.
func (c *Coalescer) TryLead() bool {
	if c.underWay == c.most {
		return false
	}
	c.underWay++
	return true
}

// Lead makes a round trip in the caller's own goroutine, which is a fifth faster for one who calls
// alone, and leaves those who came meanwhile to work. The end of ctx ends the wait for a connection.
func (c *Coalescer) Lead(ctx context.Context) {
	p, err := c.connect(ctx)
	if err == nil || !isOver(ctx) { // else it is an error of this caller's only
		c.roundTrip(p, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.underWay--
	c.Wake()
}

// isOver reports whether ctx is done, or its deadline has passed: a connection notices that a
// little sooner than ctx.
func isOver(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// roundTrip makes a round trip and returns its number of callers. They are chosen once there is a
// connection: those who left while we waited for it are not among them, those who came are.
func (c *Coalescer) roundTrip(p *store.Pipeline, err error) int {
	c.mu.Lock()
	callers, call := c.queue.Next()
	c.mu.Unlock()
	if callers > 0 {
		call(p, err)
	}
	if err == nil {
		p.Close()
	}
	return callers
}
