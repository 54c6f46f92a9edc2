package client

import (
	"cmp"
	"context"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/batch"
	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/wait"
)

// What the tests know of the inside.
const (
	RetryWindow  = wait.RetryWindow
	RoundTrips   = batch.RoundTrips
	CloseWait    = closeWait
	CheckAfter   = redisconn.CheckAfter
	KeptIdle     = redisconn.KeptIdle
	MaxTakeCalls = wait.MaxBatches
	PollAtOnce   = wait.PollAtOnce
)

// OpenThinned is OpenPool with a pool that is thinned out so often.
func OpenThinned(o PoolOptions, every time.Duration) *Client {
	o.MaxIdle = cmp.Or(o.MaxActive, defaultMaxActive)
	pool := NewPool(o)
	redisconn.Thin(pool, redisconn.KeptIdle, every)
	c := New(pool)
	c.own = pool
	return c
}

// Connections is how many connections the Client's own pool has.
func (c *Client) Connections() int { return c.own.(*redis.Pool).ActiveCount() }

// Pushes is how many push calls are under way to Redis, and how many pushes
// wait for the next.
func (c *Client) Pushes() (underWay, gathered int) {
	h := c.calls.pushes.ForTests(c.fleet.Stores[0])
	return h.UnderWay, h.Waiting
}

// PushesToGroups is Pushes for those to groups.
func (c *Client) PushesToGroups() (underWay, gathered int) {
	h := c.calls.grouped.ForTests(c.fleet.Stores[0])
	return h.UnderWay, h.Waiting
}

// WarmUp opens as many connections as settlements of all kinds need.
func (c *Client) WarmUp(ctx context.Context) error {
	var conns []redis.Conn
	for range 4 * batch.RoundTrips {
		conn, err := redisconn.NewRouter(c.own).At(c.fleet.Stores[0].Keys().JobPool()).Get(ctx)
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

// Through is the delivery in the hands of another Client.
func Through(d *Delivery, c *Client) *Delivery {
	d.client = c
	return d
}

// Settlements is how many calls that settle jobs are under way to Redis, and how many
// settlements wait for the next.
func (c *Client) Settlements() (underWay, gathered int) {
	k := &c.calls
	for _, hooks := range []func(*store.Store) batch.TestHooks{k.acks.ForTests, k.retries.ForTests, k.burials.ForTests, k.extensions.ForTests} {
		h := hooks(c.fleet.Stores[0])
		underWay, gathered = underWay+h.UnderWay, gathered+h.Waiting
	}
	return underWay, gathered
}

// Polls reports whether the Client polls, as it may not subscribe.
func (c *Client) Polls() bool { return c.dispatcher.ForTests().Polls() }

// Looks is how often the Client has looked at queues.
func (c *Client) Looks() int { return c.dispatcher.ForTests().Checks() }

// SubscribeAgain has the Client try again soon to subscribe.
func (c *Client) SubscribeAgain() { c.dispatcher.ForTests().SubscribeAgain() }

// Callers is how many callers there are for a job of the topic, and how many of
// them have seen that there is none, and wait.
func Callers(c *Client, topic string) (all, waiting int) {
	s := c.dispatcher.ForTests().State(topic)
	return s.Callers, s.Waiting
}

// Pops is how many pops of the topic are under way, and how many callers are not
// claimed by one.
func (c *Client) Pops(topic string) (underWay, unclaimed int) {
	s := c.dispatcher.ForTests().State(topic)
	return s.Polls, s.Unclaimed
}

// Queues is how many topics' queues something is known of.
func Queues(c *Client) int { return c.dispatcher.ForTests().Queues() }

// Wakes is how often it was heard that the topic has jobs.
func Wakes(c *Client, topic string) int { return c.dispatcher.ForTests().State(topic).Wakes }

// Entered reports whether the Client is to be woken for the topic's jobs.
func Entered(c *Client, topic string) bool { return c.dispatcher.ForTests().State(topic).Registered }

// Leaving is how many callers would have left if no pop were under way for them.
func Leaving(c *Client, topic string) int { return c.dispatcher.ForTests().State(topic).Leaving }

// Calm has it that the Client's looks have found nothing for long.
func (c *Client) Calm() { c.dispatcher.ForTests().Calm() }

// IsElement reports whether a body may be added to a group.
var IsElement = isElement
