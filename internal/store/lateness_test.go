package store

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// foundAt is when the jobs of these tests are found. They are moved later.
var foundAt = time.UnixMilli(1_700_000_000_000)

// lateJobs puts jobs into the pool that are this late at foundAt, in due order.
func (b *backend) lateJobs(t *testing.T, late []time.Duration) Batch {
	t.Helper()
	jobs := Batch{Topic: "t"}
	for n, d := range late {
		id := fmt.Sprintf("%06d", n)
		b.do(t, "ZADD", "delayer:job_pool", unixSeconds(foundAt.Add(-d)), id)
		jobs.IDs = append(jobs.IDs, []byte(id))
	}
	return jobs
}

func (b *backend) moveLate(jobs Batch, moved time.Duration) (Moved, error) {
	return b.Move(jobs, foundAt, foundAt.Add(moved), foundAt.Add(time.Hour)).Do(context.Background())
}

// histogram returns the expected lateness of the jobs.
func histogram(late []time.Duration, moved time.Duration) (l Lateness) {
	for _, d := range late {
		place := 0
		for place < len(LatenessBounds) && d+moved > LatenessBounds[place] {
			place++
		}
		l.Counts[place]++
		l.Sum += (d + moved).Seconds()
	}
	return l
}

func expectLate(t *testing.T, got, want Lateness) {
	t.Helper()
	if got.Counts != want.Counts || math.Abs(got.Sum-want.Sum) > 1e-6*float64(1+want.Jobs()) {
		t.Errorf("late %v, %.6f s\nwant %v, %.6f s", got.Counts, got.Sum, want.Counts, want.Sum)
	}
}

// The lateness of a batch is the sum over its jobs, in each bucket, for batches of any size.
func TestMoveLateness(t *testing.T) {
	random := func(jobs int, most time.Duration) (late []time.Duration) {
		for range jobs {
			late = append(late, 0)
		}
		for n := jobs - 1; n >= 0; n-- {
			late[n] = most * time.Duration(jobs-n) / time.Duration(jobs) / 1000 * time.Duration(900+rand.IntN(100))
			late[n] = late[n].Truncate(time.Millisecond)
			if n < jobs-1 {
				late[n] = max(late[n], late[n+1])
			}
		}
		return late
	}
	// Half a millisecond off each bound, so that rounding does not matter.
	const moved = 500 * time.Microsecond
	var all, edges []time.Duration
	for _, bound := range LatenessBounds {
		edges = append([]time.Duration{bound, bound - time.Millisecond}, edges...)
	}
	all = append([]time.Duration{300 * time.Hour, 2 * time.Hour, 2 * time.Hour}, edges...)
	onEach(t, func(t *testing.T, b *backend) {
		for name, late := range map[string][]time.Duration{
			"just due":            {0},
			"each side of bounds": edges,
			"each bucket":         all,
			"one bucket":          {time.Millisecond, time.Millisecond, time.Millisecond},
			"the last bucket":     {5 * time.Hour, 4 * time.Hour},
			"20 in 100 ms":        random(20, 100*time.Millisecond),
			"250 in 10 s":         random(250, 10*time.Second),
			"several chunks":      random(3501, time.Minute),
			"chunks of one bucket": func() []time.Duration {
				late := random(7002, time.Millisecond)
				for n := range late {
					late[n] += 11 * time.Second
				}
				return late
			}(),
		} {
			t.Run(name, func(t *testing.T) {
				b.seed(t)
				got, err := b.moveLate(b.lateJobs(t, late), moved)
				if err != nil || len(got.IDs) != len(late) || got.Lapsed != 0 {
					t.Fatalf("moved %d of %d, %d returned, %v", len(got.IDs), len(late), got.Lapsed, err)
				}
				expectLate(t, got.Late, histogram(late, moved))
			})
		}
		for _, d := range edges {
			b.seed(t)
			got, err := b.moveLate(b.lateJobs(t, []time.Duration{d}), moved)
			check(t, err)
			expectLate(t, got.Late, histogram([]time.Duration{d}, moved))
		}
	})
}

// Only jobs that became ready count as late, and only their leases as returned.
func TestMoveLatenessOfSome(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		late := []time.Duration{2 * time.Minute, 30*time.Second + 300*time.Microsecond, 30 * time.Second, 40*time.Millisecond + 700*time.Microsecond, 0}
		for name, c := range map[string]struct {
			jobs     func(Batch) Batch
			ready    []time.Duration
			returned int
		}{
			"all":                   {func(b Batch) Batch { return b }, late, 2},
			"the first and a lease": {func(b Batch) Batch { return batch("t", "000000", "gone", "000001", "000001") }, late[:2], 1},
			"a lease":               {func(b Batch) Batch { return batch("t", "000003") }, late[3:4], 1},
			"none":                  {func(b Batch) Batch { return batch("t", "gone", "gone too") }, nil, 0},
			"one of two":            {func(b Batch) Batch { return batch("t", "gone", "000002") }, late[2:3], 0},
		} {
			t.Run(name, func(t *testing.T) {
				b.seed(t)
				got, err := b.moveLate(c.jobs(b.lateJobs(t, late)), time.Millisecond)
				if err != nil || len(got.IDs) != len(c.ready) || got.Lapsed != c.returned {
					t.Errorf("moved %q, %d returned, %v, want %d and %d", got.IDs.Strings(), got.Lapsed, err, len(c.ready), c.returned)
				}
				expectLate(t, got.Late, histogram(c.ready, time.Millisecond))
			})
		}
		b.seed(t, text("ready_queue:t"))
		got, err := b.moveLate(b.lateJobs(t, late), 0)
		if err != nil || got.PutBack != len(late) || got.Lapsed != 0 || got.Late != (Lateness{}) {
			t.Errorf("put back %+v, %v", got, err)
		}
	})
}

// A job that has always been due falls into the last bucket, and its lateness is finite.
func TestMoveLatenessOfOldScores(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	for _, scores := range [][]string{{"-inf"}, {"-inf", "-1e300"}, {"-inf", "0"}, {"-1e300"}} {
		b.seed(t)
		jobs := Batch{Topic: "t"}
		for n, score := range scores {
			b.do(t, "ZADD", "delayer:job_pool", score, n)
			jobs.IDs = append(jobs.IDs, []byte(strconv.Itoa(n)))
		}
		got, err := b.moveLate(jobs, 0)
		want := Lateness{Sum: 1e12}
		want.Counts[len(LatenessBounds)] = int64(len(scores))
		if err != nil || got.Late != want {
			t.Errorf("scores %q: %+v, %v", scores, got.Late, err)
		}
	}
	b.expect(t, redistest.State{Ready: map[string][]string{"t": {"0"}}})
}

func TestLatenessHistogram(t *testing.T) {
	var none Lateness
	one := histogram([]time.Duration{3 * time.Millisecond}, 0)
	some := histogram([]time.Duration{time.Millisecond, 15 * time.Millisecond, 15 * time.Millisecond, 2 * time.Hour}, 0)
	if got := one.Plus(some).Plus(none); got.Jobs() != 5 || got.Counts != histogram([]time.Duration{time.Millisecond, 3 * time.Millisecond, 15 * time.Millisecond, 15 * time.Millisecond, 2 * time.Hour}, 0).Counts || math.Abs(got.Sum-7200.034) > 1e-9 {
		t.Errorf("sum %+v", got)
	}
	for _, c := range []struct {
		late Lateness
		q    float64
		want time.Duration
	}{
		{none, 0.5, 0},
		{one, 0, 2 * time.Millisecond}, {one, 0.5, 3500 * time.Microsecond}, {one, 1, 5 * time.Millisecond},
		{some, -1, 0}, {some, 0.25, time.Millisecond}, {some, 0.5, 15 * time.Millisecond}, {some, 0.75, 20 * time.Millisecond},
		{some, 0.76, time.Hour}, {some, 1, time.Hour}, {some, 7, time.Hour},
	} {
		if got := c.late.Quantile(c.q); got != c.want {
			t.Errorf("quantile %v of %v = %v, want %v", c.q, c.late.Counts, got, c.want)
		}
	}
}
