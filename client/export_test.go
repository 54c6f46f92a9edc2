package client

import (
	"context"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/batch"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/wait"
)

// Internal constants for tests.
const (
	RetryWindow  = wait.RetryWindow
	RoundTrips   = batch.RoundTrips
	CloseWait    = closeWait
	CheckAfter   = redisconn.CheckAfter
	MaxTakeCalls = wait.MaxBatches
)

// Conns returns the connections of a Redis.
func Conns(r *Redis) redisconn.Redis { return fleet.Conns((*fleet.Redis)(r)) }

// PoolOf returns the pool of a single server.
func PoolOf(o PoolOptions) *redis.Pool {
	conns, _ := o.connections()
	return conns.(*redis.Pool)
}

// Connections returns how many connections the Client's own pool has.
func (c *Client) Connections() int { return Conns(c.own).(*redis.Pool).ActiveCount() }

// Pushes returns how many push calls are in flight, and how many pushes wait for the next one.
func (c *Client) Pushes() (underWay, gathered int) {
	h := c.calls.pushes.ForTests(c.fleet.Stores[0])
	return h.UnderWay, h.Waiting
}

// PushesToGroups is Pushes for pushes to groups.
func (c *Client) PushesToGroups() (underWay, gathered int) {
	h := c.calls.grouped.ForTests(c.fleet.Stores[0])
	return h.UnderWay, h.Waiting
}

// WarmUp opens as many connections as settlements of all kinds need.
func (c *Client) WarmUp(ctx context.Context) error {
	var conns []redis.Conn
	for range 4 * batch.RoundTrips {
		conn, err := redisconn.NewSource(Conns(c.own)).Of(c.fleet.Stores[0].Keys().JobPool()).Get(ctx)
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

// Through returns the delivery as one of another Client.
func Through(d *Delivery, c *Client) *Delivery {
	d.client = c
	return d
}

// Settlements returns how many settling calls are in flight, and how many settlements wait for the next one.
func (c *Client) Settlements() (underWay, gathered int) {
	k := &c.calls
	for _, hooks := range []func(*store.Store) batch.TestHooks{k.acks.ForTests, k.retries.ForTests, k.burials.ForTests, k.extensions.ForTests} {
		h := hooks(c.fleet.Stores[0])
		underWay, gathered = underWay+h.UnderWay, gathered+h.Waiting
	}
	return underWay, gathered
}

// Polls reports whether the Client polls because it has no permission to subscribe.
func (c *Client) Polls() bool { return c.takers.Partition(0).State("").Refused }

// Checks returns how often the Client has checked its queues.
func (c *Client) Checks() int { return c.takers.Partition(0).State("").Checks }

// SubscribeAgain makes the Client try to subscribe again soon.
func (c *Client) SubscribeAgain() { c.takers.Partition(0).SubscribeAgain() }

// Callers returns how many callers want a job of the topic, and how many of them wait because there is no job.
func Callers(c *Client, topic string) (all, waiting int) {
	s := c.takers.Partition(0).State(topic)
	return s.Callers, s.Waiting
}

// Registered reports whether Redis wakes the Client for the topic's jobs.
func Registered(c *Client, topic string) bool {
	for i := range c.fleet.Stores {
		if !c.takers.Partition(i).State(topic).Registered {
			return false
		}
	}
	return true
}

// Calm makes the Client behave as if its checks had found nothing for a long time.
func (c *Client) Calm() { c.takers.Partition(0).Calm() }

// IsElement reports whether a body may be added to a group.
var IsElement = isElement
