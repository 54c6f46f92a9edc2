package server

import (
	"testing"
	"time"
)

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
	if b := New(nil, Options{}).movers[0].batch; b.size() != firstBatch {
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

// The stall budget sets the size of real batches.
func TestStallBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		budget      time.Duration
		least, most int
	}{{1, minBatch, firstBatch}, {time.Hour, 5000, maxBatch}} {
		const jobs = 50000
		w.many(jobs, 1)
		w.server = New(w.pool(), Options{StallBudget: c.budget})
		sizes := 0
		w.onLook(func(int) { sizes = max(sizes, w.mover().batch.size()) })
		w.expectPass(jobs, 0)
		if sizes < c.least || sizes > c.most {
			t.Errorf("stall budget %v: largest batch %d, want %d to %d", c.budget, sizes, c.least, c.most)
		}
	}
}
