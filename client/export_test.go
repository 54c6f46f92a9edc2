package client

import (
	"context"
	"math"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/coalesce"
)

// What the tests know of the inside.
const (
	RideOut      = rideOut
	MaxPushCalls = coalesce.RoundTrips
	CloseWait    = closeWait
	CheckAfter   = checkAfter
	MaxTakeCalls = maxTakeCalls
	PollAtOnce   = pollAtOnce
)

// Polled is how many topics are polled, as their channels were refused.
func (c *Client) Polled() int {
	l := c.partitions[0].listener
	l.topics.mu.Lock()
	defer l.topics.mu.Unlock()
	return len(l.polled)
}

// ListenAgain has the channels that were refused asked for again soon.
func (c *Client) ListenAgain() {
	l := c.partitions[0].listener
	l.topics.mu.Lock()
	defer l.topics.mu.Unlock()
	l.asked = l.asked.Add(-listenAgain)
}

// OpenThinned is OpenPool with a pool that is thinned out so often.
func OpenThinned(o PoolOptions, every time.Duration) *Client {
	o.MaxIdle = or(o.MaxActive, defaultMaxActive)
	pool := NewPool(o)
	watch(pool, every)
	c := New(pool)
	c.ownPool = pool
	return c
}

// Connections is how many connections the Client's own pool has.
func (c *Client) Connections() int { return c.ownPool.ActiveCount() }

// KeptIdle is how many connections are kept that nobody has needed for a while.
const KeptIdle = keptIdle

// queueOf is the topic's queue of those who pop; nil if there is none. c.topics.mu must be held.
func queueOf(c *Client, topic string) *topicQueue {
	for _, q := range c.topics.queues[topicKey{c.partitions[0], topic}] {
		if q.kind == (kind{}) {
			return q
		}
	}
	return nil
}

// Callers is how many callers there are for a job of the topic, and how many of
// them have seen that there is none, and wait.
func Callers(c *Client, topic string) (all, waiting int) {
	c.topics.mu.Lock()
	defer c.topics.mu.Unlock()
	q := queueOf(c, topic)
	if q == nil {
		return 0, 0
	}
	callers, _ := q.claimable(math.MaxInt)
	for _, caller := range callers {
		if !caller.isAsking() {
			waiting++
		}
	}
	return q.callers.Len(), waiting
}

// Pushes is how many push calls are under way to Redis, and how many pushes
// wait for the next.
func (c *Client) Pushes() (underWay, gathered int) {
	return c.partitions[0].pushes.Counts()
}

// Pops is how many pops of the topic are under way, and how many callers are not
// claimed by one.
func (c *Client) Pops(topic string) (underWay, unclaimed int) {
	c.topics.mu.Lock()
	defer c.topics.mu.Unlock()
	q := queueOf(c, topic)
	if q == nil {
		return 0, 0
	}
	callers, _ := q.claimable(math.MaxInt)
	if q.busy {
		underWay = 1
	}
	return underWay, len(callers)
}

// WarmUp opens as many connections as calls of one kind need.
func (c *Client) WarmUp(ctx context.Context) error { return c.open(ctx, coalesce.RoundTrips) }

// WarmUpAll opens as many connections as settlements of all kinds need.
func (c *Client) WarmUpAll(ctx context.Context) error { return c.open(ctx, 4*coalesce.RoundTrips) }

func (c *Client) open(ctx context.Context, most int) error {
	var conns []redis.Conn
	for range most {
		conn, err := c.ownPool.GetContext(ctx)
		if err != nil {
			return err
		}
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		conn.Close()
	}
	return nil
}

// Queues is how many topics' queues are kept.
func Queues(c *Client) int {
	c.topics.mu.Lock()
	defer c.topics.mu.Unlock()
	return len(c.topics.queues)
}

// Heard is how often it was heard that the topic has jobs, and how many other
// Clients are believed to hear the same.
func Heard(c *Client, topic string) (times, rivals int) {
	c.topics.mu.Lock()
	defer c.topics.mu.Unlock()
	q := queueOf(c, topic)
	if q == nil {
		return 0, 0
	}
	return q.heard, q.rivals
}

// Leaving is how many callers would have left if no pop were under way for them.
func Leaving(c *Client, topic string) (n int) {
	c.topics.mu.Lock()
	defer c.topics.mu.Unlock()
	if q := queueOf(c, topic); q != nil {
		for e := q.callers.Front(); e != nil; e = e.Next() {
			if e.Value.(*caller).leaving != nil {
				n++
			}
		}
	}
	return n
}

// Through is the delivery in the hands of another Client.
func Through(d *Delivery, c *Client) *Delivery {
	d.client = c
	return d
}

// MaxSettleCalls is how many calls that settle jobs are under way at a time, of each kind.
const MaxSettleCalls = coalesce.RoundTrips

// Settlements is how many calls that settle jobs are under way to Redis, and how many
// settlements wait for the next.
func (c *Client) Settlements() (underWay, gathered int) {
	p := c.partitions[0]
	for _, counts := range []func() (int, int){p.acks.Counts, p.retries.Counts, p.burials.Counts, p.extensions.Counts} {
		u, g := counts()
		underWay, gathered = underWay+u, gathered+g
	}
	return underWay, gathered
}

// Reservers is how many callers there are who want to reserve a job of the topic, and how
// many of them have seen that there is none, and wait.
func Reservers(c *Client, topic string) (all, waiting int) {
	c.topics.mu.Lock()
	defer c.topics.mu.Unlock()
	for _, q := range c.topics.queues[topicKey{c.partitions[0], topic}] {
		if !q.reserves {
			continue
		}
		callers, _ := q.claimable(math.MaxInt)
		for _, caller := range callers {
			if !caller.isAsking() {
				waiting++
			}
		}
		all += q.callers.Len()
	}
	return all, waiting
}
