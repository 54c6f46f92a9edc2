package worker_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// A topic's options override the worker's.
func TestTermsOfATopic(t *testing.T) {
	after := func(delay time.Duration) func(*worker.Job, error) time.Duration {
		return func(*worker.Job, error) time.Duration { return delay }
	}
	own := worker.TopicOptions{Lease: 2 * time.Hour, Timeout: 3 * time.Hour, MaxAttempts: 4, Backoff: after(5 * time.Hour)}
	all := worker.Options{Lease: 20 * time.Hour, Timeout: 30 * time.Hour, MaxAttempts: 40, Backoff: after(50 * time.Hour)}
	type terms struct{ lease, timeout, attempts, backoff int }
	for _, c := range []struct {
		name  string
		topic worker.TopicOptions
		all   worker.Options
		want  terms
	}{
		{"the topic's", own, all, terms{2, 3, 4, 5}},
		{"the topic's alone", own, worker.Options{}, terms{2, 3, 4, 5}},
		{"the worker's", worker.TopicOptions{}, all, terms{20, 30, 40, 50}},
		{"no timeout", worker.TopicOptions{Timeout: -1}, all, terms{20, 0, 40, 50}},
		{"no limits", worker.TopicOptions{}, worker.Options{Lease: 20 * time.Hour, Timeout: -1, MaxAttempts: -1, Backoff: after(50 * time.Hour)}, terms{20, 0, 0, 50}},
		{"no limit of a topic", worker.TopicOptions{MaxAttempts: -1}, all, terms{20, 30, 0, 50}},
		{"the topic's instead of no limit", own, worker.Options{Timeout: -1, MaxAttempts: -1}, terms{2, 3, 4, 5}},
	} {
		for _, run := range []string{"Run", "RunOne"} {
			t.Run(c.name+" "+run, func(t *testing.T) {
				f := start(t)
				var e events
				got := terms{}
				mux := worker.NewMux()
				mux.HandleFunc("t", func(ctx context.Context, job *worker.Job) error {
					if deadline, ok := ctx.Deadline(); ok {
						got.timeout = int(time.Until(deadline).Round(time.Hour).Hours())
					}
					got.lease = int(time.Duration((f.ends()[job.ID] - float64(f.clock().Unix())) * float64(time.Second)).Round(time.Hour).Hours())
					got.attempts = job.MaxAttempts
					return errors.New("no")
				}, c.topic)
				mux.HandleFunc("other", succeed, worker.TopicOptions{Lease: time.Minute})
				c.all.Hooks = worker.Hooks{Retried: func(_ *worker.Job, delay time.Duration, _ error) {
					got.backoff = int(delay.Hours())
					e.add("retried")
				}}
				f.push("a", "t")
				if run == "Run" {
					f.run(mux, c.all)
				} else if _, err := worker.New(f.Client, mux, c.all).RunOne(t.Context(), "t"); err == nil {
					t.Error("no error")
				}
				e.await(t, "retried")
				if got != c.want {
					t.Errorf("lease, timeout, attempts and backoff are %+v, want %+v", got, c.want)
				}
			})
		}
	}
}

// watch is middleware that records its start and end, and whether its handler panicked.
func watch(e *events, name string) worker.Middleware {
	return func(next worker.Handler) worker.Handler {
		return worker.HandlerFunc(func(ctx context.Context, job *worker.Job) error {
			e.add("%s before", name)
			err := next.Handle(ctx, job)
			var p *worker.PanicError
			e.add("%s after panic: %v", name, errors.As(err, &p))
			return fmt.Errorf("%s: %w", name, err)
		})
	}
}

// The first middleware is outermost, also for handlers added before it. A topic's middleware runs inside that of the
// mux and wraps no other topic. All middleware gets a panic as an error.
func TestMiddleware(t *testing.T) {
	f := start(t)
	var e events
	mux := worker.NewMux()
	mux.Use(watch(&e, "all"))
	mux.HandleFunc("t", func(context.Context, *worker.Job) error { return panics() },
		worker.TopicOptions{MaxAttempts: 1, Middleware: []worker.Middleware{watch(&e, "1"), watch(&e, "2")}})
	mux.HandleFunc("u", func(context.Context, *worker.Job) error { e.add("handler"); return errors.New("no") }, worker.TopicOptions{MaxAttempts: 1})
	mux.Use(watch(&e, "more"), watch(&e, "last"))
	f.run(mux, worker.Options{})
	f.push("a", "t")
	f.expectDead("a", 1, "used up", "all: more: last: 1: 2: panic: boom\ngoroutine")
	f.push("b", "u")
	f.expectDead("b", 1, "used up", "all: more: last: no")
	e.expect(t, "all before", "more before", "last before", "1 before", "2 before",
		"2 after panic: true", "1 after panic: true", "last after panic: true", "more after panic: true", "all after panic: true",
		"all before", "more before", "last before", "handler", "last after panic: false", "more after panic: false", "all after panic: false")
}

// A panic in middleware is also an error of its job.
func TestMiddlewarePanics(t *testing.T) {
	f := start(t)
	mux := one(succeed)
	mux.Use(func(worker.Handler) worker.Handler {
		return worker.HandlerFunc(func(context.Context, *worker.Job) error { return panics() })
	})
	f.push("a", "t", client.JobOptions{MaxAttempts: 1})
	f.run(mux, worker.Options{})
	f.expectDead("a", 1, "used up", "panic: boom\ngoroutine")
}

// The worker's options limit those of its topics.
func TestLimitsOfATopic(t *testing.T) {
	f := start(t)
	for _, o := range []worker.TopicOptions{
		{Lease: store.MaxLease, Timeout: time.Millisecond, MaxAttempts: math.MaxInt32},
		{Lease: time.Millisecond, Timeout: -1},
	} {
		mux := one(succeed, o)
		if _, err := worker.New(f.Client, mux, worker.Options{}).RunOne(t.Context(), "t"); !errors.Is(err, client.ErrEmpty) {
			t.Errorf("%+v: %v, want ErrEmpty", o, err)
		}
	}
}

//go:noinline
func panics() error { panic("boom") }

// Throttle stops delivery of the topic to all consumers. The job is redelivered afterwards, and its attempt does not
// count.
func TestThrottle(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve()
	ctx := t.Context()
	done := make(chan *worker.Job, 2)
	mux := one(func(_ context.Context, job *worker.Job) error {
		paused, err := f.Paused(ctx)
		check(t, err)
		if len(paused) == 0 && len(done) == 0 && job.ID == "a" && job.Token != 0 && f.get("b").State == "" {
			f.push("b", "t") // not delivered before the throttling ends
			return worker.Throttle(300 * time.Millisecond)
		}
		done <- job
		return nil
	})
	began := time.Now()
	f.push("a", "t")
	r := f.run(mux, worker.Options{})
	for range 2 {
		job := <-done
		if job.Attempt != 1 {
			t.Errorf("job %s has its attempt %d", job.ID, job.Attempt)
		}
		if job.ID == "a" && time.Since(began) < 300*time.Millisecond {
			t.Error("it came too early")
		}
	}
	r.stop()
}

// Jobs of many topics in many partitions cost Redis about as many commands as in one partition: a fetch returns jobs of
// many topics, and probes only if a partition's state is unknown.
func TestCommandsOfTopicsInPartitions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		topics, jobs int
		most         float64 // times the commands of one partition
	}{
		{topics: 1, jobs: 1000, most: 1.5},
		{topics: 50, jobs: 3000, most: 2.5},
	} {
		one, many := commandsAJob(t, 1, c.topics, c.jobs), commandsAJob(t, 16, c.topics, c.jobs)
		t.Logf("%d topics: %.1f commands a job with 16 partitions, %.1f with one", c.topics, many, one)
		if many > c.most*one {
			t.Errorf("want %.1f times as many at most", c.most)
		}
	}
}

// commandsAJob returns the number of Redis commands per ready job that a worker handles.
func commandsAJob(t *testing.T, partitions, topics, jobs int) float64 {
	t.Helper()
	f := &fixture{Server: redistest.Start(t)}
	f.Client = redistest.Must(client.OpenPool(client.PoolOptions{Addr: f.Addr, Partitions: partitions}))
	t.Cleanup(func() { f.Client.Close() })
	var names []string
	batch := make([]client.Item, jobs)
	for i := range topics {
		names = append(names, fmt.Sprint("t", i))
	}
	for i := range batch {
		batch[i].Message = client.Message{ID: fmt.Sprint("j", i), Topic: names[i%topics], Body: "body"}
	}
	_, err := f.PushBatch(t.Context(), batch)
	check(t, err)
	f.Do("CONFIG", "RESETSTAT")
	var handled atomic.Int64
	all := make(chan struct{})
	r := f.run(muxOf(func(context.Context, *worker.Job) error {
		if handled.Add(1) == int64(jobs) {
			close(all)
		}
		return nil
	}, names...), worker.Options{Concurrency: 50})
	redistest.Receive(t, all)
	r.stop() // stop flushes the acknowledgements
	return float64(f.Calls()) / float64(jobs)
}
