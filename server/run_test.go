package server

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
)

// TestRunWakesForDueJob uses an interval so long that only due times can wake Run. Each job is moved, and none before
// it is due by Redis's clock.
func TestRunWakesForDueJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := w.Clock()
	due := map[string]string{}
	for n, after := range []float64{0.3, 0.301, 0.6} {
		id := fmt.Sprint("job", n)
		due[id] = strconv.FormatFloat(began+after, 'f', 3, 64)
		w.push(id, "t", due[id])
	}
	early := make(chan string, 10)
	conn := w.Pool().Get()
	defer conn.Close()
	w.log.hears = func(line string) {
		now, _ := redis.Float64s(conn.Do("TIME"))
		for _, id := range idsOf(line) {
			if due, _ := strconv.ParseFloat(due[id], 64); now[0]+now[1]/1e6 < due {
				early <- id
			}
		}
	}
	w.server = serverOn(w.pool(), 1, Options{Interval: time.Hour, Logger: w.log.logger()})
	looks := atomic.Int32{}
	w.server.test.beforeMove = func() { looks.Add(1) }
	stop := w.run()
	w.log.awaitMoved(t, 3)
	stop()
	close(early)
	for id := range early {
		t.Errorf("%s was moved early", id)
	}
	w.expectReady("t", "job0", "job1", "job2")
	if n := looks.Load(); n > 20 {
		t.Errorf("%d look-ups for 3 jobs", n)
	}
}

func TestNextPass(t *testing.T) {
	const none = time.Hour
	m := serverOn(new(redis.Pool), 1, Options{Interval: 500 * time.Millisecond}).movers[0]
	m.loop.Store(&loop{began: time.Now()})
	failed := errors.New("READONLY")
	for _, c := range []struct {
		took, job time.Duration // duration of the pass, and time from its end until the next job is due
		err       error
		want      time.Duration
	}{
		{job: none, want: 500 * time.Millisecond},
		{job: none, took: 200 * time.Millisecond, want: 300 * time.Millisecond},
		{job: 20 * time.Hour, want: 500 * time.Millisecond},
		{job: 20 * time.Millisecond, want: 20 * time.Millisecond},
		{job: 20 * time.Millisecond, took: 490 * time.Millisecond, want: 10 * time.Millisecond},
		{job: 10 * time.Microsecond, want: minWait},
		{job: 0, want: minWait},
		{job: -time.Minute, want: minWait}, // the job fell due during the pass
		{job: none, took: 2 * time.Second, want: minWait},
		{job: time.Millisecond, err: failed, want: 500 * time.Millisecond},
		{job: none, took: time.Second, err: failed, want: minWait},
	} {
		now := time.Now()
		job := now.Add(c.job)
		if c.job == none {
			job = time.Time{}
		}
		got := m.nextPass(now.Add(-c.took), job, c.err).Sub(now)
		// Only minWait counts from the time of the call, which is later.
		if got < c.want || c.want > minWait && got != c.want {
			t.Errorf("pass of %v, next job in %v, error %v: next pass in %v, want %v", c.took, c.job, c.err, got, c.want)
		}
	}
}

// TestRunFindsEarlierJob pushes jobs that are due before the job for which Run sleeps: the interval finds them.
func TestRunFindsEarlierJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.push("far", "t", "5000000000")
	w.run()
	for n := range 5 {
		w.push(fmt.Sprint("a", n), "t", n)
		w.log.awaitMoved(t, n+1)
	}
	w.expectWaiting("far")
}

// TestRunStopsMidway stops Run between a read of due jobs and the moves, many batches before the end of the pass. Run
// finishes that batch and starts no other, and each job is in one place.
func TestRunStopsMidway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	jobs, last := 200000, 20
	if testing.Short() {
		jobs, last = 50000, 5
	}
	w.many(jobs, 1)
	w.server = serverOn(w.pool(), 1, w.options())
	ctx, cancel := context.WithCancel(t.Context())
	looks := 0
	w.onLook(func(n int) {
		if looks = n; n == last {
			cancel()
		}
	})
	check(t, w.server.Run(ctx))
	if looks != last {
		t.Errorf("%d look-ups, the stop was during the %dth", looks, last)
	}
	info, errors := w.log.lines()
	if len(info) != last || len(errors) > 0 {
		t.Errorf("%d batches were moved, want %d; errors %q", len(info), last, errors)
	}
	moved, waiting := w.Queue("topic0"), w.waiting()
	if !slices.Equal(append(moved, waiting...), manyIDs(jobs)) {
		t.Errorf("%d jobs ready and %d waiting are not all jobs in due order", len(moved), len(waiting))
	}
	if len(waiting) == 0 {
		t.Error("nothing was left to do at the stop")
	}
	w.expectPass(len(waiting), 0)
	w.expectManyMoved(jobs, 1)
}

// TestRunStopsWhileRedisHangs stops Run while Redis does not respond, on a pool without timeouts.
func TestRunStopsWhileRedisHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const jobs, topics = 100, 2
	w.many(jobs, topics)
	w.server = serverOn(w.poolWith(0), 1, w.options())
	hung := make(chan struct{})
	w.onLook(func(int) {
		w.Hang()
		close(hung)
	})
	stop := w.run()
	<-hung
	expectWithin(t, stopWait+4*time.Second, stop) // batchWait is longer
	w.Continue()
	w.log.expectErrors(t)

	// Redis has either finished the running command or not; another server does the rest.
	w.server = serverOn(w.pool(), 1, w.options())
	w.run()
	w.awaitEmptyPool()
	w.expectManyMoved(jobs, topics)
}

// expectWithin checks that do returns within the limit.
func expectWithin(t *testing.T, limit time.Duration, do func()) {
	t.Helper()
	began := time.Now()
	if do(); time.Since(began) > limit {
		t.Errorf("it took %v, want %v at most", time.Since(began), limit)
	}
}

// TestRunStopsWhileRedisIsGone stops Run while no Redis is reachable.
func TestRunStopsWhileRedisIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Kill()
	stop := w.run()
	w.log.awaitError(t, outageLine)
	stop()
}

// TestRunStartStop stops Run at every possible time, again and again. No job is lost or delivered twice, and no
// connection or goroutine is left. The test is not parallel, because it counts goroutines.
func TestRunStartStop(t *testing.T) {
	w := newWorld(t)
	pool := w.pool()
	const jobs, topics = 20000, 5
	w.many(jobs, topics)
	pool.Get().Close()
	before := runtime.NumGoroutine()
	for n := range 300 {
		w.server = serverOn(pool, 1, w.options())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.server.Run(ctx) }()
		for range n {
			runtime.Gosched()
		}
		if n%3 == 0 {
			time.Sleep(time.Duration(n) * 10 * time.Microsecond) // a stop at another time
		}
		cancel()
		check(t, <-done)
		if used := pool.ActiveCount() - pool.IdleCount(); used != 0 {
			t.Fatalf("%d connections are left", used)
		}
	}
	until(t, "end of the goroutines", func() bool { return runtime.NumGoroutine() <= before })
	w.pass()
	w.expectManyMoved(jobs, topics)
	w.log.expectErrors(t)
}

// TestDefaults checks the documented zero values of Options.
func TestDefaults(t *testing.T) {
	m := serverOn(new(redis.Pool), 1, Options{}).movers[0]
	share := serverOn(new(redis.Pool), 1, Options{StallBudget: 2 * time.Millisecond}).movers[0].batch.budget
	if m.server.options.Interval != time.Second || m.batch.budget != share || share != 750*time.Microsecond || m.store.Keys().JobPool() != "delayer:job_pool" {
		t.Errorf("interval %v, budget of a batch %v, pool %s", m.server.options.Interval, m.batch.budget, m.store.Keys().JobPool())
	}
	if pool := serverOn(new(redis.Pool), 1, Options{Prefix: "other:"}).movers[0].store.Keys().JobPool(); pool != "other:job_pool" {
		t.Errorf("with another prefix the pool is %s", pool)
	}
}

// For any interval, the pool is polled often enough for jobs that no push announces, and soon after a failure.
func TestLongestSleep(t *testing.T) {
	m := serverOn(new(redis.Pool), 1, Options{Interval: 24 * time.Hour}).movers[0]
	started := time.Now()
	m.loop.Store(&loop{began: started})
	for _, job := range []time.Time{{}, started.Add(time.Hour)} {
		if sleep := m.nextPass(started, job, nil).Sub(started); sleep >= store.AnnouncedWithin {
			t.Errorf("the next pass is %v later, want less than %v", sleep, store.AnnouncedWithin)
		}
		if again := m.nextPass(started, job, errors.New("LOADING")).Sub(started); again != polledSleep {
			t.Errorf("the next try is %v later, want %v", again, polledSleep)
		}
	}
}

// Unusable arguments cause an error and no panic, and nothing is dropped.
func TestUnusable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var none context.Context
	pool := w.pool()
	w.bury("t", time.Second, "a")
	before := w.Do("DBSIZE")
	for name, c := range map[string]struct {
		server *Server
		ctx    context.Context
		want   string
	}{
		"nil":        {nil, t.Context(), "not made with New"},
		"zero":       {new(Server), t.Context(), "not made with New"},
		"no context": {serverOn(pool, 1, Options{}), none, "ctx is nil"},
	} {
		for call, err := range map[string]error{"Run": c.server.Run(c.ctx), "Pass": c.server.Pass(c.ctx), "Check": c.server.Check(c.ctx)} {
			if err == nil || errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %s: %v, want %q", name, call, err, c.want)
			}
		}
	}
	if after := w.Do("DBSIZE"); after != before {
		t.Errorf("%v keys, there were %v", after, before)
	}
}

// A wrong option is an error of New, which names it.
func TestWrongOptions(t *testing.T) {
	pool := &redis.Pool{}
	one := client.UsePool(pool, 1)
	for name, c := range map[string]struct {
		redis   *client.Redis
		options Options
		want    string
	}{
		"no Redis":        {nil, Options{}, "redis: it is nil"},
		"no pool":         {client.UsePool(nil, 1), Options{}, "redis: it is nil"},
		"tiny interval":   {one, Options{Interval: 1000}, "Interval 1µs is less than a millisecond; in Go a number without a unit is in nanoseconds"},
		"tiny age":        {one, Options{DeadMaxAge: 14}, "DeadMaxAge 14ns is less than a millisecond"},
		"many partitions": {client.UsePool(pool, fleet.MaxPartitions+1), Options{}, "is not from 1 to"},
		"braces":          {client.UsePool(pool, 2), Options{Prefix: "{a}:"}, "has braces"},
		"tiny, not alone": {one, Options{Interval: time.Second, DeadMaxAge: time.Millisecond - 1}, "DeadMaxAge 999.999µs is less"},
	} {
		s, err := New(c.redis, c.options)
		if s != nil || err == nil || !strings.HasPrefix(err.Error(), "server: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	serverOn(pool, 1, Options{Interval: time.Millisecond, DeadMaxAge: time.Hour})
}
