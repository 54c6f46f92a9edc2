package worker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
)

func newTestRun(o Options, topics ...TopicOptions) *run {
	var list []topic
	for _, t := range topics {
		list = append(list, topic{options: t})
	}
	return newRun(nil, list, o.withDefaults())
}

func TestTokens(t *testing.T) {
	const ever = math.MaxInt32
	for _, c := range []struct {
		rate  float64
		taken int           // tokens taken first
		after time.Duration // time until the check
		n     int
		next  time.Duration // minimum; the maximum is a millisecond more
	}{
		{0, 1000, 0, ever, 0},
		{1, 0, 0, 1, 0},
		{1, 1, 0, 0, time.Second},
		{1, 1, 400 * time.Millisecond, 0, 600 * time.Millisecond},
		{1, 1, time.Second, 1, 0},
		{1, 1, time.Hour, 1, 0}, // no more than one token is saved up
		{100, 0, 0, 5, 0},       // tokens for 50 ms
		{100, 5, 20 * time.Millisecond, 2, 0},
		{100, 5, time.Hour, 5, 0},
		{1e-300, 1, time.Hour, 0, longestWait},
		{1e300, 0, time.Hour, ever, 0},
	} {
		b := newTokens(c.rate)
		for range c.taken {
			b.take()
		}
		n, next := b.allowed(b.at.Add(c.after))
		if n != c.n || next < c.next-time.Microsecond || next > c.next+time.Millisecond {
			t.Errorf("rate %v, %v after %d were taken: %d, next after %v; want %d, %v", c.rate, c.after, c.taken, n, next, c.n, c.next)
		}
	}
}

// Topics of one priority come first in proportion to their weights; a higher priority always comes first.
func TestOrder(t *testing.T) {
	r := newTestRun(Options{}, TopicOptions{}, TopicOptions{Weight: 3}, TopicOptions{Weight: 1, Priority: 1}, TopicOptions{Weight: 1 << 60, Priority: -1})
	const draws = 20_000
	second := 0
	for range draws {
		order := r.inOrder()
		if order[0] != r.served[2] || order[3] != r.served[3] {
			t.Fatal("not in the order of their priorities")
		}
		if order[1] == r.served[1] {
			second++
		}
	}
	// The expectation is 15,000 and the standard deviation 61.
	if second < 14_500 || second > 15_500 {
		t.Errorf("the one of weight 3 came first %d times out of %d", second, draws)
	}
}

// The default backoff grows with the cube of the attempts up to 4 hours, give or take half of it. All default attempts of a job take
// about a day.
func TestDefaultBackoff(t *testing.T) {
	for _, c := range []struct {
		attempt int
		mean    time.Duration
	}{{-1, time.Second}, {1, time.Second}, {2, 8 * time.Second}, {10, 1000 * time.Second}, {24, 13824 * time.Second}, {25, 4 * time.Hour}, {math.MaxInt, 4 * time.Hour}} {
		var least, most time.Duration = math.MaxInt64, 0
		for range 2000 {
			d := DefaultBackoff(&Job{Attempt: c.attempt}, nil)
			least, most = min(least, d), max(most, d)
		}
		if least < c.mean/2 || least > c.mean*6/10 || most > c.mean*3/2 || most < c.mean*14/10 {
			t.Errorf("attempt %d: from %v to %v, want %v give or take half of it", c.attempt, least, most, c.mean)
		}
	}
	const jobs = 1000
	var sum time.Duration
	for range jobs {
		for attempt := 1; attempt < store.DefaultMaxAttempts; attempt++ {
			sum += DefaultBackoff(&Job{Attempt: attempt}, nil)
		}
	}
	// The standard deviation is 2.2 hours for a job, and 4 minutes for the average.
	if mean := sum / jobs; (mean - 25*time.Hour).Abs() > 30*time.Minute {
		t.Errorf("%d attempts take %v on average, want 25h", store.DefaultMaxAttempts, mean)
	}
}

// A run wants jobs for its free slots, and more ahead at the pace of the handlers, but no more than one fetch returns
// or the run may have.
func TestWanted(t *testing.T) {
	for _, c := range []struct {
		concurrency, running, buffered, active int
		perSecond                              float64
		want                                   int
	}{
		{10, 0, 0, 0, 0, 10},
		{10, 4, 0, 4, 0, 6},
		{10, 10, 0, 10, 0, 0},
		{10, 10, 0, 10, 99, 0},
		{10, 10, 0, 10, 1000, 10},
		{10, 10, 5, 15, 1000, 5},
		{10, 10, 6, 16, 1000, 0}, // most are still buffered
		{10, 4, 0, 4, 1000, 16},
		{10, 10, 0, 10, 1e9, 250},
		{10_000, 0, 0, 0, 0, 250},
		{10, 0, 0, 1020, 1e9, 0},
		{10, 0, 0, 1019, 1e9, 1},
	} {
		r := newTestRun(Options{Concurrency: c.concurrency})
		r.running, r.pace.perSecond = c.running, c.perSecond
		r.buffered = make([]*task, c.buffered)
		for range c.active {
			r.tasks[new(task)] = true
		}
		if got := r.wanted(); got != c.want {
			t.Errorf("%+v: %d are wanted", c, got)
		}
	}
}

// When the run has its maximum of jobs and no handler is running, the end of a settlement triggers the next fetch.
func TestEndOfAReportMakesRoom(t *testing.T) {
	r := newTestRun(Options{Concurrency: 1})
	var last *task
	r.underWay.Add(r.maxActive)
	for range r.maxActive {
		last = new(task)
		r.tasks[last] = true
	}
	r.finish(last)
	select {
	case <-r.changed:
	default:
		t.Error("nobody looks whether jobs are wanted")
	}
}

// A failure is logged at most once per minute, and its end only if it was logged.
func TestFetchFailure(t *testing.T) {
	var log bytes.Buffer
	f := fetchFailure{logger: slog.New(slog.NewTextHandler(&log, nil))}
	expect := func(errors, infos int) {
		t.Helper()
		if strings.Count(log.String(), "level=ERROR") != errors || strings.Count(log.String(), "level=INFO") != infos {
			t.Errorf("the log is\n%swant %d errors and %d infos", log.String(), errors, infos)
		}
	}
	network := errors.New("connection refused")
	for _, want := range []time.Duration{50, 100, 200, 400, 800, 1000, 1000} {
		if got := f.failed(network); got != want*time.Millisecond || !f.away {
			t.Errorf("pause %v, want %v", got, want*time.Millisecond)
		}
	}
	expect(1, 0)
	f.recovered()
	f.recovered()
	expect(1, 1)
	f.failed(redis.Error("READONLY")) // an error reply from Redis
	if f.away {
		t.Error("a Redis that answers is away")
	}
	f.recovered()
	expect(1, 1) // within the same minute
	f.said = f.said.Add(-remindEvery)
	f.failed(network)
	if f.failed(redis.Error("CLUSTERDOWN")); !f.away {
		t.Error("a node that is about to be back counts as back")
	}
	f.recovered()
	expect(2, 2)
}

// A handler that returns just when it is given up frees its slot once, and its job is settled once.
func TestHandlerReturnsAsItIsGivenUp(t *testing.T) {
	for _, returnsFirst := range []bool{true, false} {
		r := newTestRun(Options{Concurrency: 1, Logger: slog.New(slog.DiscardHandler)}, TopicOptions{})
		stuck := &task{run: r, served: r.served[0], job: new(Job), giveUpAt: time.Now(), lost: true}
		stuck.ctx, stuck.cancel = context.WithCancelCause(t.Context())
		stuck.cancel(client.ErrLeaseLost)
		r.tasks[stuck], r.running, stuck.served.active = true, 1, 1
		r.underWay.Add(1)
		if !returnsFirst {
			r.attend()
		}
		if counts := r.handled(stuck); counts != returnsFirst {
			t.Errorf("its result counts: %v", counts)
		}
		if returnsFirst {
			r.attend()
			r.finish(stuck)
		}
		r.underWay.Wait()
		if r.running != 0 || r.stuck != 0 || stuck.served.active != 0 || len(r.tasks) != 0 {
			t.Errorf("returned first %v: %d running, %d stuck, %d active, %d tasks", returnsFirst, r.running, r.stuck, stuck.served.active, len(r.tasks))
		}
	}
}
