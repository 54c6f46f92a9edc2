package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// spy is a connection that reports writes.
type spy struct {
	redis.ConnWithContext
	sends func(args []any)
}

func (c spy) Send(command string, args ...any) error {
	c.sends(args)
	return c.ConnWithContext.Send(command, args...)
}

func (c spy) DoWithTimeout(timeout time.Duration, command string, args ...any) (any, error) {
	return redis.DoWithTimeout(c.ConnWithContext, timeout, command, args...)
}

func (c spy) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	return redis.ReceiveWithTimeout(c.ConnWithContext, timeout)
}

// spied returns a pool that reports writes on its connections.
func (w *world) spied(sends func(args []any)) *redis.Pool {
	pool := w.pool()
	dial := pool.DialContext
	pool.DialContext = func(ctx context.Context) (redis.Conn, error) {
		conn, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		return spy{conn.(redis.ConnWithContext), sends}, nil
	}
	return pool
}

// TestDemotedMaster moves an address to another master, while the old master becomes a replica and keeps its
// connections. It follows the new master, or a master without new data. The Server continues with the new master and
// subscribes there.
func TestDemotedMaster(t *testing.T) {
	t.Parallel()
	for name, follows := range map[string]bool{"follows": true, "cut off": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old, w := redistest.Start(t), newWorld(t)
			proxy := redistest.StartProxy(t, old.Addr)
			pool := w.poolTo(proxy.Addr, 3*time.Second)
			var rested []redis.Conn
			for range 4 {
				conn := pool.Get()
				_, err := conn.Do("PING")
				check(t, err)
				rested = append(rested, conn)
			}
			for _, conn := range rested {
				conn.Close()
			}
			w.server = serverOn(pool, 1, w.options())
			w.run()
			awaitListeners(t, old, 1)
			old.Do("HSET", prefix+"job_bucket:a", "topic", "t", "body", "body")
			old.Do("ZADD", prefix+"job_pool", 1, "a")
			w.log.awaitMoved(t, 1)

			proxy.Lead(w.Addr)
			master := "127.0.0.1:1"
			if follows {
				master = w.Addr
			}
			host, port, _ := strings.Cut(master, ":")
			old.Do("REPLICAOF", host, port)
			for n := range 6 { // more than there are old connections
				w.push(fmt.Sprint("new", n), "t", n)
				w.log.awaitMoved(t, n+2)
			}
			awaitListeners(t, w.Server, 1)
			w.expectReady("t", "new0", "new1", "new2", "new3", "new4", "new5")
			_, errors := w.log.lines()
			for _, e := range errors { // of a run that takes a second, the new master lacks the heartbeat
				if !strings.HasPrefix(e, "Redis has lost what this server wrote") {
					t.Errorf("error log: %s", e)
				}
			}
		})
	}
}

// IDs are long and the network is slow, so a usual batch would take longer than the timeouts. In the end all jobs are
// moved.
func TestLongIDsOverASlowNetwork(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	for _, c := range []struct{ jobs, bytesPerSecond int }{
		{60, 6 << 20}, // 1 MiB arrives in time
		{8, 1 << 20},  // half of that does not arrive in time; a job takes seconds on a busy machine
	} {
		t.Run(fmt.Sprint(c.bytesPerSecond, " bytes per second"), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			proxy := redistest.StartProxy(t, w.Addr)
			proxy.Limit(c.bytesPerSecond)
			w.server = serverOn(w.poolTo(proxy.Addr, 500*time.Millisecond), 1, Options{Interval: 10 * time.Millisecond})
			var ids []string
			for n := range c.jobs {
				ids = append(ids, fmt.Sprintf("%03d", n)+strings.Repeat("x", 100<<10))
				w.push(ids[n], "t", n)
			}
			w.run()
			w.awaitEmptyPool()
			// A command that arrives late on an abandoned connection may move jobs between two pages of the next pass.
			w.expectIDs("ready of t, sorted", slices.Sorted(slices.Values(w.Queue("t"))), ids)
		})
	}
}

// The parts of a topic's batch keep their order, even if Redis learns the script between two of them.
func TestPartsOfABatchKeepTheirOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const jobs = 5
	w.many(jobs, 1)
	w.expectPass(jobs, 0) // now Redis knows the script
	w.many(jobs, 1)
	parts := 0
	pool := w.spied(func(args []any) {
		if args[3] != "topic0" { // not a move
			return
		}
		if parts++; parts == 1 && len(args[0].(string)) == 40 {
			args[0] = strings.Repeat("f", 40) // unknown to Redis
		}
	})
	w.server = serverOn(pool, 1, w.options())
	w.mover().batch = batchSize{budget: 1, current: 1}
	w.expectPass(jobs, 0)
	if parts < jobs {
		t.Fatalf("%d parts", parts)
	}
	w.expectManyMoved(jobs, 1)
}

// A new first job between two pages of a batch shifts another job into both pages: that job enters its queue once.
func TestPassPagesOverlap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const jobs, topics = 10 * minBatch, 5 * minBatch
	w.many(jobs, topics)
	pushed := 0
	pool := w.spied(func(args []any) {
		if len(args) == 7 && args[5] != 0 { // a later page leaves out the jobs of the first one
			pushed++
			w.push(fmt.Sprint("early", pushed), "early", -pushed)
		}
	})
	w.server = serverOn(pool, 1, w.options())
	w.mover().batch = batchSize{budget: 1, current: minBatch}
	r := w.pass()
	if pushed == 0 {
		t.Fatal("there was one page only")
	}
	if r.Moved != jobs+pushed {
		t.Errorf("moved %d jobs, want %d", r.Moved, jobs+pushed)
	}
	info, _ := w.log.lines()
	times := map[string]int{}
	for _, line := range info {
		for _, id := range idsOf(line) {
			if times[id]++; times[id] == 2 {
				t.Errorf("%s is in the log twice", id)
			}
		}
	}
	if got := len(w.Queue("early")); got != pushed {
		t.Errorf("%d of the early jobs are ready, want %d", got, pushed)
	}
	w.Do("DEL", prefix+"ready_queue:early")
	for n := range pushed {
		w.Do("DEL", fmt.Sprint(prefix, "job_bucket:early", n+1))
	}
	w.expectManyMoved(jobs, topics)
}

// The time until the next job counts from the read of that job, however long the pass takes.
func TestPassNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	due := time.Now().Add(time.Minute)
	w.push("a", "t", 1)
	w.push("next", "t", float64(due.UnixMilli())/1000)
	w.onLook(func(int) { time.Sleep(time.Second) })
	if r := w.pass(); r.Moved != 1 || r.Next.Sub(due).Abs() > 500*time.Millisecond {
		t.Errorf("moved %d, next in %v, want 1, %v", r.Moved, time.Until(r.Next), time.Until(due))
	}
	// The next retry of a stuck job also counts.
	w.onLook(func(int) {})
	w.Do("SET", prefix+"ready_queue:u", "no list")
	for _, every := range []time.Duration{time.Hour, 10 * time.Second} {
		w.push("stuck", "u", 1)
		w.mover().stuck.every = every
		want := due
		if try := time.Now().Add(every); try.Before(due) {
			want = try
		}
		if r := w.pass(); r.Moved != 0 || r.Next.Sub(want).Abs() > 5*time.Second {
			t.Errorf("tried again after %v: next in %v, want %v", every, time.Until(r.Next), time.Until(want))
		}
	}
}

// A job that is pushed while no server is subscribed is found as soon as a server subscribes again.
func TestRunAfterReconnecting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var subscribed atomic.Int32
	pool := w.spied(func(args []any) {
		if len(args) == 1 && args[0] == prefix+"first_due" { // without an announcement, as the original's clients do
			w.push(fmt.Sprint("job", subscribed.Add(1)), "t", 1)
		}
	})
	w.server = serverOn(pool, 1, Options{Interval: time.Hour, Logger: w.log.logger()})
	w.run()
	for n := range 4 {
		w.log.awaitMoved(t, n+1)
		awaitListeners(t, w.Server, 1)
		w.Do("CLIENT", "KILL", "TYPE", "pubsub")
	}
}
