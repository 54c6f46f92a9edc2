package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// In a cluster each partition has a loop and a connection of its own. Its jobs are moved on time wherever its slot goes. A node that dies stops no partition
// of another one, and is logged once, however many partitions it has.
func TestPartitionsInACluster(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	c := redistest.StartCluster(t, "--cluster-require-full-coverage", "no", "--cluster-replica-no-failover", "yes")
	connect := func() redisconn.Redis {
		timeouts := redisconn.Dialer{ConnectTimeout: time.Second, ReadTimeout: 3 * time.Second, WriteTimeout: 3 * time.Second}
		r := redisconn.NewCluster(c.Addrs(), timeouts, func(d redisconn.Dialer) *redis.Pool {
			return &redis.Pool{MaxIdle: 4, DialContext: d.Dial, TestOnBorrowContext: redisconn.CheckRested}
		})
		t.Cleanup(func() { r.Close() })
		return r
	}
	const partitions = 16
	p, log := fleetOn(connect(), partitions), new(recorder)
	moved := 0
	push := func(stores ...*store.Store) {
		t.Helper()
		for _, s := range stores {
			check(t, pushTo(t.Context(), s, store.Job{ID: fmt.Sprint(moved), Topic: "t", Body: "b"}, store.Due{After: 20 * time.Millisecond}))
			moved++
		}
		log.awaitMoved(t, moved)
	}
	slot := func(s *store.Store) int { return c.Slot(s.Keys().JobPool()) }
	server := serverOn(connect(), partitions, Options{Interval: time.Hour, Logger: log.logger()})
	stop := redistest.Background(t, server.Run)
	push(p.Stores...)
	log.expectErrors(t)
	beats := func() []store.ServerState {
		servers, err := p.Stores[0].Servers(t.Context())
		check(t, err)
		return servers
	}
	until(t, "one entry for all partitions", func() bool { all := beats(); return len(all) == 1 && all[0].Moved == int64(moved) })

	dies := c.Owner(slot(p.Stores[5]))
	var here, others []*store.Store
	for _, s := range p.Stores {
		if c.Owner(slot(s)) == dies {
			here = append(here, s)
		} else {
			others = append(others, s)
		}
	}
	c.Kill(dies)
	until(t, "all partitions of the node fail", func() bool {
		server.outages.mu.Lock()
		defer server.outages.mu.Unlock()
		o := server.outages.running[noRedis]
		return o != nil && len(o.met) == len(here)
	})
	push(others...)
	log.expectErrorsWith(t, outageLine)
	dies.Restart()
	c.AwaitHealth()
	log.awaitInfo(t, noRedis+": over after")
	push(p.Stores...)
	log.expectErrorsWith(t, outageLine)

	for _, s := range here {
		c.MoveSlot(slot(s), c.Owner(slot(others[0])))
	}
	push(p.Stores...)
	stop()
}
