package client

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

const (
	// maxJobs and maxBytes bound what one script call stores, so that it does
	// not keep Redis from others.
	maxJobs  = 250
	maxBytes = 1 << 20
)

// coalescer lets calls of one kind share round trips. When few are under way a
// call goes at once; those that come meanwhile gather and go together in the
// next. Who gathers, and in which order, is the queue's affair.
type coalescer struct {
	client   *Client
	store    *store.Store
	mu       *sync.Mutex // guards the queue and what follows
	queue    queue
	most     int // round trips under way at a time
	underWay int
}

// queue is who waits for the next round trip. Its methods are called with the
// coalescer's mu held.
type queue interface {
	// waiting reports whether anybody waits.
	waiting() bool
	// next takes those off the queue who go with the next round trip. callers is how many
	// they are: 0 if all have left meanwhile. call makes the round trip; its error is why there
	// is no connection, which it tells the callers.
	next() (callers int, call func(*store.Pipeline, error))
	// idle is called when a round trip is over.
	idle()
}

// wake has a round trip made for those who wait. mu must be held.
func (c *coalescer) wake() {
	if c.underWay < c.most && c.queue.waiting() {
		c.underWay++
		c.client.running.Add(1)
		go c.work()
	}
}

// work makes round trips as long as anybody waits for one.
func (c *coalescer) work() {
	defer c.client.running.Done()
	for c.isWanted() {
		p, err := c.store.Pipeline(c.client.abandoned)
		if err != nil && c.client.abandoned.Err() != nil {
			err = ErrClosed
		}
		if c.roundTrip(p, err) > 1 {
			// The callers who were served run first: those who call again at once
			// go with the next round trip then, and not with one of their own.
			runtime.Gosched()
		}
	}
}

// isWanted reports whether anybody waits. If not, work ends, and is no longer under way.
func (c *coalescer) isWanted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue.waiting() {
		return true
	}
	c.underWay--
	c.queue.idle()
	return false
}

// mayLead reports whether a caller may make a round trip itself: then it must lead.
// mu must be held.
func (c *coalescer) mayLead() bool {
	if c.underWay == c.most {
		return false
	}
	c.underWay++
	return true
}

// lead makes a round trip in the caller's own goroutine. For one who calls alone that is a
// fifth faster. Those who came meanwhile are left to work. The end of ctx ends the wait for a
// connection.
func (c *coalescer) lead(ctx context.Context) {
	p, err := c.store.Pipeline(ctx)
	if err == nil || !isOver(ctx) { // else it is an error of this caller's only
		c.roundTrip(p, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.underWay--
	c.wake()
	c.queue.idle()
}

// isOver reports whether ctx is done, or its deadline has passed: a connection notices that a little
// sooner than ctx.
func isOver(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// roundTrip makes a round trip, and returns for how many callers it was. They are chosen when
// there is a connection: who left while we waited for it is not among them, who came is.
func (c *coalescer) roundTrip(p *store.Pipeline, err error) int {
	c.mu.Lock()
	callers, call := c.queue.next()
	c.mu.Unlock()
	if callers > 0 {
		call(p, err)
	}
	if err == nil {
		if p.Replaced() {
			c.client.listenAnew()
		}
		p.Close()
	}
	return callers
}
