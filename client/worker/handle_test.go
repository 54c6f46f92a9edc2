package worker_test

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// A handler gets a due job with its fields. If it returns nil, the job is acknowledged.
func TestHandle(t *testing.T) {
	f := start(t)
	f.serve()
	var e events
	jobs := make(chan *worker.Job, 1)
	f.run(one(func(ctx context.Context, job *worker.Job) error {
		if worker.JobOf(ctx) != job {
			t.Error("JobOf is another job")
		}
		jobs <- job
		return nil
	}), worker.Options{Hooks: e.hooks()})
	m := client.Message{ID: "a", Topic: "t", Body: "body"}
	_, err := f.Push(t.Context(), m, 50*time.Millisecond)
	check(t, err)
	job := next(t, jobs)
	if !reflect.DeepEqual(job.Message, m) || job.Attempt != 1 || job.MaxAttempts != store.DefaultMaxAttempts || job.Token <= 0 || job.LateBy < 0 {
		t.Errorf("got %+v", job)
	}
	e.await(t, "started a", "done a")
	f.expectNothing()
	if worker.JobOf(t.Context()) != nil {
		t.Error("JobOf a context that is no handler's is a job")
	}
}

// A failing job is retried until its attempts are used up, then becomes a dead letter with the last error.
func TestRetryUntilExhausted(t *testing.T) {
	f := start(t)
	f.serve()
	var e events
	var log redistest.Log
	f.push("a", "t")
	f.run(one(func(ctx context.Context, job *worker.Job) error {
		return fmt.Errorf("failure %d of %d", job.Attempt, job.MaxAttempts)
	}), worker.Options{MaxAttempts: 3, Hooks: e.hooks(), Logger: log.Logger(), Backoff: func(job *worker.Job, err error) time.Duration {
		if want := fmt.Sprintf("failure %d of 3", job.Attempt); job.ID != "a" || err.Error() != want {
			t.Errorf("Backoff of %s, %q, want of a, %q", job.ID, err, want)
		}
		return time.Duration(job.Attempt) * time.Hour
	}})
	// The job is rescheduled only after all hooks of an attempt have run, because the next attempt may start
	// at once.
	all := []string{"started a", "failed a", "retried a after 1h0m0s"}
	e.await(t, all...)
	f.dueNow("a")
	all = append(all, "started a", "failed a", "retried a after 2h0m0s")
	e.await(t, all...)
	f.dueNow("a")
	e.await(t, append(all, "started a", "failed a", "buried a")...)
	f.expectDead("a", 3, "all 3 attempts used up", "failure 3 of 3")
	log.Expect(t, 2, "level=WARN", "topic=t job=a attempt=", "failure", "it will be tried again")
	log.Expect(t, 1, "level=ERROR", "topic=t job=a attempt=3", `error="failure 3 of 3"`, "dead letter")
}

// Log lines about a job name the trace of its push, if its headers have one.
func TestLogArgs(t *testing.T) {
	f := start(t)
	for id, traceparent := range map[string]string{"a": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "b": "unusual", "c": ""} {
		_, err := f.Push(t.Context(), client.Message{ID: id, Topic: "t", Body: "body", Headers: map[string]string{"traceparent": traceparent}}, 0)
		check(t, err)
	}
	var log redistest.Log
	mux := one(func(context.Context, *worker.Job) error { return worker.Bury(errors.New("no")) })
	for range 3 {
		worker.New(f.Client, mux, worker.Options{Logger: log.Logger()}).RunOne(t.Context(), "t")
	}
	log.Expect(t, 1, "topic=t job=a attempt=1 trace=0af7651916cd43dd8448eb211c80319c error=no")
	log.Expect(t, 1, "topic=t job=b attempt=1 error=no")
	log.Expect(t, 1, "topic=t job=c attempt=1 error=no")
}

// Each result of a handler has its effect on the job.
func TestEnds(t *testing.T) {
	for _, c := range []struct {
		name   string
		handle func() error
		// the hooks called, the job's final state, the number of attempts, its minimum and maximum wait, and parts of
		// its error and reason
		events        []string
		state         client.State
		attempts      int
		least, most   time.Duration
		reason, error string
	}{
		{name: "RetryAfter inside", handle: func() error { return fmt.Errorf("outside: %w", worker.RetryAfter(errors.New("busy"), time.Hour)) },
			events: []string{"failed a", "retried a after 1h0m0s"}, state: client.StateWaiting, attempts: 1, least: time.Hour, most: time.Hour, error: "outside: busy"},
		{name: "RetryAfter without error", handle: func() error { return worker.RetryAfter(nil, time.Hour) },
			events: []string{"failed a", "retried a after 1h0m0s"}, state: client.StateWaiting, attempts: 1, least: time.Hour, most: time.Hour, error: "retry"},
		{name: "RetryAfter too long", handle: func() error { return worker.RetryAfter(errors.New("busy"), 1<<63-1) },
			events: []string{"failed a", "retried a after 876000h0m0s"}, state: client.StateWaiting, attempts: 1, least: store.MaxDelay, most: store.MaxDelay},
		{name: "the backoff", handle: func() error { return errors.New("no") },
			events: []string{"failed a", "retried a after 1m0s"}, state: client.StateWaiting, attempts: 1, least: time.Minute, most: time.Minute, error: "no"},
		{name: "Release", handle: func() error { return worker.Release(time.Hour) },
			events: []string{"released a for 1h0m0s"}, state: client.StateWaiting, attempts: 0, least: time.Hour, most: time.Hour},
		{name: "Bury", handle: func() error { return worker.Bury(errors.New("no such order")) },
			events: []string{"failed a", "buried a"}, state: client.StateDead, attempts: 1, reason: "no such order", error: "no such order"},
		{name: "Bury inside", handle: func() error { return fmt.Errorf("outside: %w", worker.Bury(errors.New("no such order"))) },
			events: []string{"failed a", "buried a"}, state: client.StateDead, attempts: 1, reason: "outside: no such order"},
		{name: "Bury without error", handle: func() error { return worker.Bury(nil) },
			events: []string{"failed a", "buried a"}, state: client.StateDead, attempts: 1, reason: "buried"},
		{name: "Goexit", handle: func() error { runtime.Goexit(); return nil },
			events: []string{"failed a", "retried a after 1m0s"}, state: client.StateWaiting, attempts: 1, least: time.Minute, most: time.Minute, error: "runtime.Goexit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := start(t)
			var e events
			handle := func(ctx context.Context, job *worker.Job) error {
				if job.ID == "a" {
					return c.handle()
				}
				return nil
			}
			before := f.clock()
			f.push("a", "t")
			f.run(one(handle), worker.Options{Concurrency: 1, Hooks: e.hooks(), Backoff: func(*worker.Job, error) time.Duration { return time.Minute }})
			want := append([]string{"started a"}, c.events...)
			e.await(t, want...)
			job := f.expectJob("a", c.state, c.attempts)
			if c.state == client.StateWaiting {
				if job.Due.Before(before.Add(c.least)) || job.Due.After(f.clock().Add(c.most+time.Millisecond)) {
					t.Errorf("due at %v, want %v to %v after the attempt", job.Due, c.least, c.most)
				}
			}
			if !strings.Contains(job.Reason, c.reason) || !strings.Contains(job.Error, c.error) {
				t.Errorf("reason %q and error %q, want %q and %q in them", job.Reason, job.Error, c.reason, c.error)
			}
			f.push("b", "t") // the only slot is free again
			e.await(t, append(want, "started b", "done b")...)
		})
	}
}

type order struct{ Number int }

// A job that a typed handler cannot decode becomes a dead letter at once. ExampleHandle and ExampleHandleWith decode.
func TestTyped(t *testing.T) {
	f := start(t)
	handle := func(context.Context, order) error { t.Error("it is handled"); return nil }
	mux := worker.NewMux()
	worker.Handle(mux, "json", handle)
	worker.HandleWith(mux, "xml", xml.Unmarshal, handle)
	f.run(mux, worker.Options{})
	f.push("bad", "json")
	f.push("worse", "xml")
	f.expectDead("bad", 1, "the body can't be decoded: invalid character 'b'", "")
	f.expectDead("worse", 1, "the body can't be decoded: EOF", "")
}

// A group handler gets the values in the order in which they were pushed. A job that is not a group becomes a dead
// letter at once.
func TestGroup(t *testing.T) {
	f := start(t)
	got := make(chan []order, 2)
	const orders client.Topic[order] = "orders"
	mux := worker.NewMux()
	worker.HandleGroup(mux, orders, func(_ context.Context, list []order) error { got <- list; return nil })
	f.run(mux, worker.Options{})
	for n := range 3 {
		_, err := orders.Push(t.Context(), f.Client, order{n}, 0, client.Group{Key: "k", Max: 3, Longest: time.Hour})
		check(t, err)
	}
	if list := next(t, got); !slices.Equal(list, []order{{0}, {1}, {2}}) {
		t.Errorf("got %v", list)
	}
	for body, why := range map[string]string{`{"Number": 1}`: "json: cannot unmarshal object", "[]": "there is nothing in it", "null": "there is nothing in it"} {
		_, err := f.Push(t.Context(), client.Message{ID: "bad", Topic: "orders", Body: body}, 0)
		check(t, err)
		f.expectDead("bad", 1, "the body can't be decoded: "+why, "")
	}
}

type hookKey struct{}

// The Client's hooks see how a worker takes, handles and settles each job. The handler, and what settles its job, have
// the context of the hook for the handler.
func TestClientHooks(t *testing.T) {
	for name, c := range map[string]struct {
		handle func(context.Context) error
		want   []string
	}{
		"done":      {func(context.Context) error { return nil }, []string{"handle <nil>", "ack <nil>"}},
		"failed":    {func(context.Context) error { return errors.New("no") }, []string{"handle no", "retry <nil>"}},
		"released":  {func(context.Context) error { return worker.Release(time.Hour) }, []string{"handle <nil>", "release <nil>"}},
		"buried":    {func(context.Context) error { return worker.Bury(errors.New("no")) }, []string{"handle no", "bury <nil>"}},
		"panicking": {func(context.Context) error { panic("no") }, []string{"handle panic: no", "retry <nil>"}},
		"exiting":   {func(context.Context) error { runtime.Goexit(); return nil }, []string{"handle the handler has called runtime.Goexit", "retry <nil>"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			var mu sync.Mutex
			var seen []string
			hook := func(ctx context.Context, call *client.Call) (context.Context, func()) {
				if within := ctx.Value(hookKey{}); (call.Operation != "handle") != (within == "the handler's") {
					t.Errorf("%s is in the context of %v", call.Operation, within)
				}
				return context.WithValue(ctx, hookKey{}, "the handler's"), func() {
					mu.Lock()
					defer mu.Unlock()
					text, _, _ := strings.Cut(errorText(call.Err), "\n")
					seen = append(seen, call.Operation+" "+text)
					if len(call.Jobs) != 1 || call.Jobs[0].ID != "a" || call.Jobs[0].Attempt != 1 {
						t.Errorf("%s has jobs %+v", call.Operation, call.Jobs)
					}
				}
			}
			hooked := redistest.Must(client.OpenPool(f.reach(client.PoolOptions{}), client.WithPrefix(f.Prefix), client.WithHooks(client.Hooks{Settle: hook, Handle: hook})))
			defer hooked.Close()
			mux := one(func(ctx context.Context, _ *worker.Job) error {
				if ctx.Value(hookKey{}) != "the handler's" {
					t.Error("the handler's context is not the hook's")
				}
				return c.handle(ctx)
			})
			f.push("a", "t")
			ended := make(chan struct{})
			go func() { // which Goexit ends
				defer close(ended)
				worker.New(hooked, mux, worker.Options{Logger: slog.New(slog.DiscardHandler)}).RunOne(t.Context(), "t")
			}()
			<-ended
			if !slices.Equal(seen, c.want) {
				t.Errorf("hooks have seen %q, want %q", seen, c.want)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return "<nil>"
	}
	return err.Error()
}
