package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
)

// oneOptions logs nothing and allows two attempts, a minute apart.
func oneOptions() worker.Options {
	return worker.Options{
		MaxAttempts: 2,
		Backoff:     func(*worker.Job, error) time.Duration { return time.Minute },
		Logger:      slog.New(slog.DiscardHandler),
	}
}

// TestRunOne handles a job with each possible result.
func TestRunOne(t *testing.T) {
	t.Parallel()
	f := start(t)
	cause := errors.New("no paper")
	type left struct { // the job afterwards
		state    client.State // "" if it is gone
		attempts int
		text     string // in its error or reason
	}
	var stop context.CancelFunc // ends RunOne's context
	for _, test := range []struct {
		name   string
		handle func(ctx context.Context, job *worker.Job) error
		before int   // previous attempts
		want   error // error of RunOne
		left   left
	}{
		{"done", succeed, 0, nil, left{}},
		{"error", func(context.Context, *worker.Job) error { return cause }, 0, cause, left{client.StateWaiting, 1, "no paper"}},
		{"last error", func(context.Context, *worker.Job) error { return cause }, 1, cause, left{client.StateDead, 2, "no paper"}},
		{"retry after", func(context.Context, *worker.Job) error { return worker.RetryAfter(cause, 0) }, 0, cause, left{client.StateReady, 1, "no paper"}},
		{"retry after a computed delay", func(context.Context, *worker.Job) error { return worker.RetryAfter(cause, 1) }, 0, cause, left{client.StateWaiting, 1, "no paper"}},
		{"release", func(context.Context, *worker.Job) error { return worker.Release(time.Hour) }, 0, worker.Release(time.Hour), left{client.StateWaiting, 0, ""}},
		{"bury", func(context.Context, *worker.Job) error { return worker.Bury(cause) }, 0, cause, left{client.StateDead, 1, "no paper"}},
		{"panic", func(context.Context, *worker.Job) error { panic("no ink") }, 0, new(worker.PanicError), left{client.StateWaiting, 1, "panic: no ink"}},
		{"lease lost", func(ctx context.Context, job *worker.Job) error {
			_, err := f.Remove(ctx, job.ID)
			return err
		}, 0, client.ErrLeaseLost, left{}},
		{"stopped", func(ctx context.Context, _ *worker.Job) error {
			stop()
			<-ctx.Done()
			return ctx.Err()
		}, 0, context.Canceled, left{client.StateReady, 0, ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f.push("job", "t")
			for range test.before {
				d, err := f.Reserve(t.Context(), 0, "t")
				check(t, err)
				check(t, d.Retry(t.Context(), 0, nil))
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stop = cancel

			job, err := worker.New(f.Client, one(test.handle), oneOptions()).RunOne(ctx, "t")
			if !sameError(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			if job == nil || job.ID != "job" || job.Attempt != test.before+1 {
				t.Errorf("handled %+v", job)
			}
			got := f.get("job")
			if got.State != test.left.state || got.Attempts != test.left.attempts || !strings.Contains(got.Error+got.Reason, test.left.text) {
				t.Errorf("the job is %+v, want %+v", got, test.left)
			}
			f.Flush()
		})
	}
}

// sameError reports whether err is want, is of want's type, or has its text.
func sameError(err, want error) bool {
	if _, ok := want.(*worker.PanicError); ok {
		return errors.As(err, new(*worker.PanicError))
	}
	return errors.Is(err, want) || want != nil && err != nil && err.Error() == want.Error()
}

// TestRunOneAsRun checks that RunOne uses the worker's options.
func TestRunOneAsRun(t *testing.T) {
	t.Parallel()
	c := start(t).Client
	_, err := c.Push(t.Context(), client.Message{ID: "job", Topic: "print", Body: `{"pages":3}`}, 0)
	check(t, err)
	var calls []string
	mux := worker.NewMux()
	mux.Use(func(next worker.Handler) worker.Handler {
		return worker.HandlerFunc(func(ctx context.Context, job *worker.Job) error {
			calls = append(calls, "middleware")
			return next.Handle(ctx, job)
		})
	})
	worker.Handle(mux, "print", func(ctx context.Context, document struct{ Pages int }) error {
		if document.Pages != 3 || worker.JobOf(ctx) == nil {
			t.Errorf("%+v, %v", document, worker.JobOf(ctx))
		}
		<-ctx.Done()
		calls = append(calls, context.Cause(ctx).Error())
		return nil
	})
	o := oneOptions()
	o.Timeout = time.Millisecond
	o.Hooks.Started = func(*worker.Job) { calls = append(calls, "started") }
	o.Hooks.Done = func(*worker.Job, time.Duration) { calls = append(calls, "done") }
	if _, err := worker.New(c, mux, o).RunOne(t.Context(), "print"); err != nil {
		t.Error(err)
	}
	want := "started, middleware, the timeout of 1ms has passed, done"
	if got := strings.Join(calls, ", "); got != want {
		t.Errorf("calls: %s\nwant:  %s", got, want)
	}
}

// TestRunOneRenews runs a handler until its lease is extended.
func TestRunOneRenews(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.push("job", "t")
	mux := one(func(ctx context.Context, job *worker.Job) error {
		first, err := f.Get(ctx, job.ID)
		for got := first; err == nil && got.Due.Equal(first.Due); time.Sleep(10 * time.Millisecond) {
			got, err = f.Get(ctx, job.ID)
		}
		return err // nil if the lease was extended
	})
	o := oneOptions()
	o.Lease, o.Timeout = 3*time.Second, hangBound
	if _, err := worker.New(f.Client, mux, o).RunOne(t.Context(), "t"); err != nil {
		t.Error(err)
	}
}

func TestRunOneWithoutJob(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.push("job", "scan")
	w := worker.New(f.Client, one(func(context.Context, *worker.Job) error { t.Error("the handler is called"); return nil }), oneOptions())
	for topic, want := range map[string]error{"t": client.ErrEmpty, "scan": client.ErrInvalid} { // scan has no handler
		if job, err := w.RunOne(t.Context(), topic); job != nil || !errors.Is(err, want) {
			t.Errorf("%s: %v, %v: want %v", topic, job, err, want)
		}
	}
}
