package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

type (
	queues  = map[string][]string
	buckets = map[string]string
)

// TestPass checks that one pass moves all due jobs.
func TestPass(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		jobs, topics int
	}{
		{jobs: 0, topics: 1},
		{jobs: 1, topics: 1},
		{jobs: firstBatch, topics: 1}, // exactly a batch
		{jobs: firstBatch + 1, topics: 1},
		{jobs: 3 * firstBatch, topics: 7},
		{jobs: 8001, topics: 1},
		{jobs: 10000, topics: 1000},
		{jobs: 100000, topics: 8},
	} {
		if testing.Short() && c.jobs > 20000 {
			continue
		}
		t.Run(fmt.Sprintf("%d jobs in %d topics", c.jobs, c.topics), func(t *testing.T) {
			w.TB = t
			w.many(c.jobs, c.topics)
			w.server = serverOn(w.pool(), 1, Options{})
			w.expectPass(c.jobs, 0)
			w.expectManyMoved(c.jobs, c.topics)
			w.expectPass(0, 0)
		})
	}
}

// A pass ends with the batch after which nothing is due.
func TestPassReadsUntilShort(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct{ jobs, looks int }{{0, 1}, {1, 1}, {99, 1}, {100, 1}, {101, 2}, {200, 2}, {201, 3}} {
		w.many(c.jobs, 1)
		w.mover().batch = batchSize{budget: 1, current: minBatch} // the batch size stays small
		looks := 0
		w.onLook(func(n int) { looks = n })
		w.expectPass(c.jobs, 0)
		if looks != c.looks {
			t.Errorf("%d jobs by %d: %d look-ups, want %d", c.jobs, minBatch, looks, c.looks)
		}
	}
}

func TestReadyLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.push("id1", "close_order", 1)
	w.push("id3", "other", 2)
	w.push("id2", "close_order", 3)
	w.expectPass(3, 0)
	info, _ := w.log.lines()
	want := []string{"Job is ready, Topic: close_order, IDs: [id1,id2]", "Job is ready, Topic: other, IDs: [id3]"}
	if !slices.Equal(info, want) {
		t.Errorf("log:\n got %q\nwant %q", info, want)
	}
	w.expectPass(0, 0)
	if again, _ := w.log.lines(); len(again) != len(info) {
		t.Errorf("a pass that moved nothing logged %q", again[len(info):])
	}
}

// Once Redis's clock is known, a few due jobs are moved by the read itself.
func TestPassMovesFewAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.expectPass(0, 0)
	for n := range atOnce {
		w.push(fmt.Sprint("a", n), fmt.Sprint("t", n%3), 1)
	}
	ready := int64(-1)
	w.server.test.beforeMove = func() { ready = w.Do("LLEN", prefix+"ready_queue:t0").(int64) }
	w.expectPass(atOnce, 0)
	if want := int64((atOnce + 2) / 3); ready != want {
		t.Errorf("%d jobs of a topic were ready, want %d", ready, want)
	}
	w.log.awaitMoved(t, atOnce)
}

// TestPassOnce checks that Pass moves all due jobs and drops old dead letters each time; Run drops them once a minute.
// Pass writes no heartbeat.
func TestPassOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const jobs, topics = 2*firstBatch + 1, 3
	w.many(jobs, topics)
	check(t, w.server.Pass(t.Context()))
	w.expectManyMoved(jobs, topics)
	if n := w.Do("EXISTS", prefix+"servers").(int64); n != 0 {
		t.Errorf("servers: %v", w.servers())
	}

	w.Do("FLUSHALL")
	w.push("far", "t", "5000000000")
	for range 2 {
		w.bury("t", 10000*time.Hour, "old")
		check(t, w.server.Pass(t.Context()))
		w.Expect(redistest.State{Pool: []string{"far"}, Buckets: buckets{"far": "t body"}})
	}
}

func TestPassOnceFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.many(1, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.server.Pass(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that is done: %v", err)
	}
	check(t, w.server.Run(ctx))
	if got := w.waiting(); len(got) != 1 {
		t.Errorf("waiting %q", got)
	}
	w.Do("SET", prefix+"job_pool", "broken")
	if err := w.server.Pass(t.Context()); err == nil {
		t.Error("no error though the pool is broken")
	}
}

// TestFreshJobsDoNotWaitForTheBacklog makes jobs fall due during a backlog. Each of them is in its queue within two
// more reads of due jobs, and the backlog is moved in due order.
func TestFreshJobsDoNotWaitForTheBacklog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const jobs, fresh = 3000, 20
	w.many(jobs, 1)
	w.mover().batch = batchSize{budget: 1, current: minBatch} // the batch size stays small
	want := manyIDs(jobs)
	w.onLook(func(n int) {
		if n <= fresh {
			id := fmt.Sprint("fresh", n)
			w.push(id, "u", redisTime(w))
			want = append(want, id)
		}
		if n > 2 && n <= fresh+2 {
			if got := w.Queue("u"); len(got) < n-2 || got[n-3] != fmt.Sprint("fresh", n-2) {
				t.Errorf("look-up %d: job fresh%d is not ready: %q", n, n-2, got)
			}
			if left := len(w.waiting()); left < jobs/20 {
				t.Fatalf("the backlog ends too early to say anything: %d", left)
			}
		}
	})
	w.expectPass(jobs+fresh, 0)
	got := append(w.Queue("topic0"), w.Queue("u")...)
	if !slices.Equal(got, want) {
		t.Errorf("%d jobs are ready, want %d, or the order is wrong", len(got), len(want))
	}
}

func TestBatchSize(t *testing.T) {
	const budget = 2 * time.Millisecond
	for _, c := range []struct {
		name            string
		from            float64
		jobs            int
		took, roundTrip time.Duration
		want            int
	}{
		{"as long as it may", 500, 500, budget, 0, 500},
		{"twice too long: shrinks at once", 1000, 1000, 2 * budget, 0, 500},
		{"ten times too long", 5000, 5000, 10 * budget, 0, 500},
		{"never below the least", 500, 500, 100 * budget, 0, minBatch},
		{"but smaller after timeouts, and no smaller then", 10, 10, 100 * budget, 0, 10},
		{"grows again after that", 8, 8, budget / 100, 0, 10},
		{"few even for that", 8, 7, budget / 100, 0, 8},
		{"a trip as long as it may be", 500, 500, budget / 100, longCall, 500},
		{"a slow network", 500, 500, budget / 100, 2 * longCall, 250},
		{"half as long: grows by an eighth of what is missing", 800, 800, budget / 2, 0, 900},
		{"a hundredth as long: grows by a quarter", 800, 800, budget / 100, 0, 1000},
		{"never above the most", 9000, 9000, budget / 100, 0, maxBatch},
		{"few jobs say nothing", 500, minBatch - 1, 50 * budget, 0, 500},
		{"just enough jobs", 500, minBatch, budget, 0, minBatch},
		{"a part of a batch, as long as it may", 1000, 400, budget, 0, 400},
		{"a part of a batch, in its share of the time", 1000, 400, budget * 4 / 10, 0, 1000},
		{"no clock: the round trip", 1000, 1000, 0, 2 * budget, 500},
		{"the round trip does not count where there is a clock", 500, 500, budget, 10 * budget, 500},
	} {
		b := batchSize{budget: budget, current: c.from}
		b.observe(c.jobs, c.took, c.roundTrip)
		if b.size() != c.want {
			t.Errorf("%s: from %v by %d jobs in %v or %v: %d, want %d", c.name, c.from, c.jobs, c.took, c.roundTrip, b.size(), c.want)
		}
	}
	b := batchSize{budget: budget, current: 500}
	for _, want := range []int{250, 125, 62, 31, 15, 7, 3, 1, 1, 1} {
		if b.halve(); b.size() != want {
			t.Errorf("halved to %d, want %d", b.size(), want)
		}
	}
	for n := 0; b.size() < minBatch; n++ {
		if b.observe(b.size(), time.Microsecond, time.Millisecond); n > 100 {
			t.Fatalf("grows to %d only", b.size())
		}
	}
	if b := serverOn(new(redis.Pool), 1, Options{}).movers[0].batch; b.size() != firstBatch {
		t.Errorf("begins with %d", b.size())
	}
}

// If each job costs Redis the same time, the batch size soon settles at the largest one that fits, from either side,
// and stays there.
func TestBatchSizeSettles(t *testing.T) {
	const budget, perJob = 2 * time.Millisecond, time.Microsecond
	for _, from := range []float64{minBatch, firstBatch, maxBatch} {
		b := batchSize{budget: budget, current: from}
		for n := range 100 {
			took := time.Duration(b.size()) * perJob
			if n > 0 && took > budget {
				t.Errorf("from %v: call %d took %v", from, n, took)
			}
			b.observe(b.size(), took, 0)
		}
		if got := b.size(); got < 1990 {
			t.Errorf("from %v: settled at %d, want 2000", from, got)
		}
	}
}

// The stall budget sets the size of real batches: without any room they never grow, with much they do. (How far depends on how long a
// call takes, which is bounded as well.)
func TestStallBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		budget      time.Duration
		least, most int
	}{{1, minBatch, firstBatch}, {time.Hour, firstBatch + 1, maxBatch}} {
		const jobs = 50000
		w.many(jobs, 1)
		w.server = serverOn(w.pool(), 1, Options{StallBudget: c.budget})
		sizes := 0
		w.onLook(func(int) { sizes = max(sizes, w.mover().batch.size()) })
		w.expectPass(jobs, 0)
		if sizes < c.least || sizes > c.most {
			t.Errorf("stall budget %v: largest batch %d, want %d to %d", c.budget, sizes, c.least, c.most)
		}
	}
}
