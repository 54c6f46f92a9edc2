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
		Backoff:     func(int, error) time.Duration { return time.Minute },
		Logger:      slog.New(slog.DiscardHandler),
	}
}

// TestRunOne handles a job with each possible result.
func TestRunOne(t *testing.T) {
	t.Parallel()
	c := start(t).Client
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
		{"error", func(context.Context, *worker.Job) error { return cause }, 0, cause, left{client.Waiting, 1, "no paper"}},
		{"last error", func(context.Context, *worker.Job) error { return cause }, 1, cause, left{client.Dead, 2, "no paper"}},
		{"retry after", func(context.Context, *worker.Job) error { return worker.RetryAfter(cause, 0) }, 0, cause, left{client.Ready, 1, "no paper"}},
		{"snooze", func(context.Context, *worker.Job) error { return worker.Snooze(time.Hour) }, 0, worker.Snooze(time.Hour), left{client.Waiting, 0, ""}},
		{"bury", func(context.Context, *worker.Job) error { return worker.Bury(cause) }, 0, cause, left{client.Dead, 1, "no paper"}},
		{"panic", func(context.Context, *worker.Job) error { panic("no ink") }, 0, new(worker.PanicError), left{client.Waiting, 1, "panic: no ink"}},
		{"lease lost", func(ctx context.Context, job *worker.Job) error {
			_, err := c.Remove(ctx, job.ID)
			return err
		}, 0, client.ErrLeaseLost, left{}},
		{"stopped", func(ctx context.Context, _ *worker.Job) error {
			stop()
			<-ctx.Done()
			return ctx.Err()
		}, 0, context.Canceled, left{client.Ready, 0, ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := c.Push(t.Context(), client.Message{ID: "job", Topic: "print", Body: "page"}, 0)
			check(t, err)
			for range test.before {
				d, err := c.Reserve(t.Context(), 0, 0, "print")
				check(t, err)
				check(t, d.Retry(t.Context(), 0))
			}
			mux := worker.NewMux()
			mux.HandleFunc("print", test.handle)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stop = cancel

			job, err := worker.New(c, mux, oneOptions()).RunOne(ctx, "print")
			if !sameError(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			if job == nil || job.ID != "job" || job.Attempt != test.before+1 {
				t.Errorf("handled %+v", job)
			}
			got, err := c.Get(t.Context(), "job")
			if errors.Is(err, client.ErrNotFound) {
				got = client.Job{}
			} else if err != nil {
				t.Fatal(err)
			}
			if got.State != test.left.state || got.Attempts != test.left.attempts || !strings.Contains(got.Error+got.Reason, test.left.text) {
				t.Errorf("the job is %+v, want %+v", got, test.left)
			}
			if got.State != "" {
				_, err := c.Remove(t.Context(), "job")
				check(t, err)
			}
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
	c := start(t).Client
	_, err := c.Push(t.Context(), client.Message{ID: "job", Topic: "print", Body: "page"}, 0)
	check(t, err)
	mux := worker.NewMux()
	mux.HandleFunc("print", func(ctx context.Context, job *worker.Job) error {
		first, err := c.Get(ctx, job.ID)
		for got := first; err == nil && got.Due.Equal(first.Due); time.Sleep(10 * time.Millisecond) {
			got, err = c.Get(ctx, job.ID)
		}
		return err // nil if the lease was extended
	})
	o := oneOptions()
	o.Lease, o.Timeout = 3*time.Second, hangBound
	if _, err := worker.New(c, mux, o).RunOne(t.Context(), "print"); err != nil {
		t.Error(err)
	}
}

func TestRunOneWithoutJob(t *testing.T) {
	t.Parallel()
	c := start(t).Client
	mux := worker.NewMux()
	mux.HandleFunc("print", func(context.Context, *worker.Job) error {
		t.Error("the handler is called")
		return nil
	})
	_, err := c.Push(t.Context(), client.Message{Topic: "scan", Body: "page"}, 0)
	check(t, err)
	for _, test := range []struct {
		name, topic string
		worker      *worker.Worker
		want        error
	}{
		{"none is ready", "print", worker.New(c, mux, oneOptions()), client.ErrEmpty},
		{"topic without a handler", "scan", worker.New(c, mux, oneOptions()), client.ErrInvalid},
		{"wrong options", "print", worker.New(c, mux, worker.Options{Lease: -1}), client.ErrInvalid},
	} {
		if job, err := test.worker.RunOne(t.Context(), test.topic); job != nil || !errors.Is(err, test.want) {
			t.Errorf("%s: %v, %v: want %v", test.name, job, err, test.want)
		}
	}
}
