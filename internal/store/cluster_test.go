package store

import (
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// inCluster returns 16 partitions in the cluster.
func inCluster(t *testing.T, c *redistest.Cluster) []*Store {
	t.Helper()
	return partitions(poolOf(t, c), 16)
}

func poolOf(t *testing.T, c *redistest.Cluster) *redisconn.Cluster {
	t.Helper()
	second := redisconn.Dialer{ConnectTimeout: time.Second, ReadTimeout: 3 * time.Second, WriteTimeout: 3 * time.Second}
	pool := redisconn.NewCluster(c.Addrs(), second, func(d redisconn.Dialer) *redis.Pool {
		return &redis.Pool{MaxIdle: 4, DialContext: d.Dial, TestOnBorrowContext: redisconn.CheckRested}
	})
	t.Cleanup(func() { pool.Close() })
	return pool
}

func addrOf(t *testing.T, s *Store) string {
	t.Helper()
	addr, err := s.Addr(t.Context())
	check(t, err)
	return addr
}

func wakeOfMe(s *Store) string { return s.Keys().Wake("me") }

// subscribedTo returns a subscription to the channels of these stores, which are on one node.
func subscribedTo(t *testing.T, s *Store, more ...*Store) *Subscription {
	t.Helper()
	var sub *Subscription
	redistest.Until(t, "it hears its channels", func() bool {
		var err error
		if sub, err = s.Subscribe(t.Context(), time.Minute); err != nil {
			return false
		}
		for _, s := range append(more, s) {
			if err := sub.Add(wakeOfMe(s)); err != nil {
				sub.Close()
				return false
			}
			if event, err := sub.Receive(); err != nil {
				sub.Close()
				return false
			} else if !event.Subscribed || event.Channel != wakeOfMe(s) {
				t.Fatalf("got %+v", event)
			}
		}
		return true
	})
	t.Cleanup(func() { sub.Close() })
	return sub
}

// awaitEnd waits until the subscription has ended.
func awaitEnd(t *testing.T, s *Store, sub *Subscription, what string) {
	t.Helper()
	over := make(chan error, 1)
	go func() {
		for {
			if _, err := sub.Receive(); err != nil {
				over <- err
				return
			}
		}
	}()
	redistest.Until(t, what, func() bool {
		s.Ping(t.Context()) // a client that sends nothing learns nothing
		select {
		case <-over:
			return true
		default:
			return false
		}
	})
}

// A subscription receives the channels of one node, whatever their slots, and ends when one of them moves to another node.
func TestSubscriptionInCluster(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	c := redistest.StartCluster(t)
	p := inCluster(t, c)
	ctx := t.Context()
	check(t, p[0].Ping(ctx))
	var here, there []*Store // stores on the node of p[0], and the others
	for _, s := range p {
		if addrOf(t, s) == addrOf(t, p[0]) {
			here = append(here, s)
		} else {
			there = append(there, s)
		}
	}
	slot := func(s *Store) int { return c.Slot(s.Keys().JobPool()) }
	owner := c.Owner(slot(here[0]))

	sub := subscribedTo(t, here[0], here[1], here[2])
	for _, s := range here[:3] {
		owner.Do("SPUBLISH", wakeOfMe(s), "x")
		expectEvents(t, sub, told(wakeOfMe(s), "x"))
	}
	counts, err := here[1].Waiters(ctx, waitedFor("t"))
	if err != nil || len(counts[0]) != 0 {
		t.Errorf("waiters %v, %v", counts, err)
	}
	owner.Do("ZADD", here[1].Keys().Waiters("t"), 1, "me")
	if counts, err = here[1].Waiters(ctx, waitedFor("t")); err != nil || len(counts[0]) != 1 {
		t.Errorf("waiters %v, %v, want 1", counts, err)
	}
	check(t, sub.Remove(wakeOfMe(here[2])))
	check(t, sub.Add(wakeOfMe(there[0])))
	if event, err := sub.Receive(); !OfOneSlot(err) {
		t.Errorf("a channel of another node: %+v, %v", event, err)
	}

	sub = subscribedTo(t, here[0], here[1])
	c.MoveSlot(slot(here[1]), c.Owner(slot(there[0])))
	awaitEnd(t, here[0], sub, "a slot has moved")
	subscribedTo(t, here[1])
	if addrOf(t, here[1]) == addrOf(t, here[0]) {
		t.Error("the partition is where it was")
	}

	sub = subscribedTo(t, here[0])
	i := slices.Index(c.Servers, owner)
	c.AwaitHealth()
	c.Failover(c.Servers[3+i])
	c.AwaitOwner(slot(here[0]), owner)
	owner.Do("CLIENT", "KILL", "TYPE", "normal") // the connections of the pool
	awaitEnd(t, here[0], sub, "its node was demoted")
	sub = subscribedTo(t, here[0])
	c.AwaitHealth()
	c.Kill(c.Owner(slot(here[0])))
	awaitEnd(t, here[0], sub, "its node was killed")
	subscribedTo(t, here[0])
}

// If a slot has moved, the pipeline makes the refused calls, and all later ones, at the new owner.
func TestPipelineLeavesANodeWithoutTheSlot(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	c := redistest.StartCluster(t)
	p := inCluster(t, c)
	s := p[0]
	slot := c.Slot(s.Keys().JobPool())
	from := c.Owner(slot)
	calls, err := s.Pipeline(t.Context())
	check(t, err)
	defer calls.Close()
	push := func(id string) *Call[[]error] { return s.Push([]Delayed{aJob(id, "t", time.Hour)}).Send(calls) }
	check(t, errorOf(push("a").Wait(t.Context())))
	c.MoveSlot(slot, c.Servers[(slices.Index(c.Servers[:3], from)+1)%3])
	for _, call := range []*Call[[]error]{push("b"), push("c")} {
		check(t, errorOf(call.Wait(t.Context())))
	}
	check(t, errorOf(push("d").Wait(t.Context())))
	if got := c.Owner(slot).Strings("ZRANGE", s.Keys().JobPool(), 0, -1); !slices.Equal(got, []string{"a", "b", "c", "d"}) {
		t.Errorf("the pool has %q", got)
	}
	if !calls.Replaced {
		t.Error("it is not told that a node was left")
	}
}
