package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
	"github.com/mix-basic/delayer/internal/testing/pooltest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// A stopping worker waits for its handlers, and their results count although the caller's context has ended.
func TestStopWaitsForHandlers(t *testing.T) {
	f := start(t)
	h := f.hold(f.Client, worker.Options{Concurrency: 1})
	f.push("b", "t")
	h.cancel()
	select {
	case err := <-h.ended:
		t.Fatalf("Run returned %v although a handler runs", err)
	case h.leave <- nil:
	}
	h.stop()
	h.expect(t, "started a", "done a")
	f.expectJob("b", client.StateReady, 0)
	f.expectJob("a", "", 0)
}

// After the grace period the handlers' contexts end. An abandoned job loses no attempt, and a late result still counts.
func TestStopInterruptsHandlers(t *testing.T) {
	for _, c := range []struct {
		result func(ctx context.Context) error
		event  string
		state  client.State
	}{
		{func(ctx context.Context) error { return fmt.Errorf("stopped: %w: %w", ctx.Err(), context.Cause(ctx)) }, "released a for 0s", client.StateReady},
		{func(context.Context) error { return nil }, "done a", ""},
	} {
		f := start(t)
		h := f.hold(f.Client, worker.Options{Grace: -1})
		h.cancel()
		ctx := next(t, h.ctx)
		<-ctx.Done()
		h.leave <- c.result(ctx)
		h.stop()
		h.expect(t, "started a", c.event)
		f.expectJob("a", c.state, 0)
	}
}

// Run returns even if a handler does not. The handler's job is released, and its later result, whatever it is, has no
// effect and is not reported.
func TestStuck(t *testing.T) {
	late := []error{nil, errors.New("late"), worker.Bury(errors.New("late"))}
	f := start(t)
	var log redistest.Log
	g, e := newGate(), new(events)
	f.pushMany(len(late), "", "t")
	r := f.run(one(g.handle), worker.Options{Grace: -1, Hooks: e.hooks(), Logger: log.Logger()})
	for range late {
		next(t, g.inside)
	}
	r.stop()
	before := map[string]client.JobInfo{}
	for id := range f.State().Buckets {
		before[id] = f.expectJob(id, client.StateReady, 0)
		log.Expect(t, 1, "level=ERROR", "handler does not return", "topic=t job="+id+" attempt=1")
	}
	for range late {
		if ctx := next(t, g.ctx); ctx.Err() == nil {
			t.Error("a handler's context has not ended")
		}
	}
	for _, result := range late {
		g.leave <- result
	}
	until(t, "the handlers' goroutines have ended", func() bool { return workers() == "" })
	for id, before := range before {
		if after := f.get(id); after.State != before.State || after.Attempts != before.Attempts || after.Error != "" {
			t.Errorf("the job was %+v, and is %+v since its handler has returned", before, after)
		}
		if e.count("started "+id) != 1 || e.count("stuck "+id) != 1 || e.count("released "+id+" for 0s") != 1 {
			t.Errorf("events %q, want that %s was started, stuck and released", e.all(), id)
		}
	}
	if len(before) != len(late) || len(e.all()) != 3*len(late) {
		t.Errorf("%d jobs, events %q", len(before), e.all())
	}
	log.Expect(t, len(late), "level=")
}

// A handler that returns while its job is being released does not interrupt the release.
func TestStuckHandlerReturns(t *testing.T) {
	t.Parallel()
	f := start(t)
	g, e := newGate(), new(events)
	hooks := e.hooks()
	returned := make(chan struct{})
	hooks.Stuck = func(job *worker.Job) {
		e.add("stuck %s", job.ID)
		g.leave <- nil
		select {
		case <-returned: // too early
		case <-time.After(100 * time.Millisecond):
		}
	}
	f.push("a", "t")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(returned)
		worker.New(f.Client, one(g.handle), worker.Options{Grace: -1, Hooks: hooks, Logger: slog.New(slog.DiscardHandler)}).Run(ctx)
	}()
	next(t, g.inside)
	cancel()
	next(t, returned)
	e.await(t, "started a", "stuck a", "released a for 0s")
	f.expectJob("a", client.StateReady, 0)
}

// Jobs reserved ahead are released at a stop, or when handlers have become slow, without losing an attempt.
func TestStopReleasesWhatIsNotStarted(t *testing.T) {
	for _, stopFirst := range []bool{true, false} {
		f := start(t, undivided)
		g := newGate()
		var e events
		r := f.quickThenSlow(g, &e)
		if stopFirst {
			r.cancel()
		}
		until(t, "only the job that is handled is reserved", func() bool { return len(f.State().Reserved) == 1 })
		r.cancel()
		g.leave <- nil
		r.stop()
		if n := len(f.State().Ready["t"]); n != 249 {
			t.Errorf("%d jobs are ready, want 249", n)
		}
		for n := 1; n < 250; n++ {
			f.expectJob(fmt.Sprint("slow", n), client.StateReady, 0)
		}
		if n := len(e.all()); n != 2*501 {
			t.Errorf("%d events, want the start and the end of 501 jobs", n)
		}
	}
}

// quickThenSlow runs a worker with one slot. Its handler is quick at first, so that jobs are reserved ahead,
// and then waits at the gate.
func (f *fixture) quickThenSlow(g *gate, e *events) *running {
	f.TB.Helper()
	f.pushMany(250, "quick", "t")
	f.pushMany(250, "more quick", "t")
	f.pushMany(250, "slow", "t")
	slow := false // only one slot, so no lock is needed
	r := f.run(one(func(ctx context.Context, job *worker.Job) error {
		slow = slow || job.ID == "slow0"
		if slow {
			return g.handle(ctx, job)
		}
		return nil
	}), worker.Options{Concurrency: 1, Hooks: e.hooks()})
	next(f.TB, g.inside)
	return r
}

// A job is released, not started, if its reservation is in flight when the worker stops.
func TestStopDuringFetch(t *testing.T) {
	f := start(t, undivided)
	redistest.NotExternal(t, "watches what its connections carry")
	h := pooltest.NewHolder()
	pool := pooltest.Through(f.Server, 8, h.Wrap)
	defer pool.Close()
	c := f.on(pool)
	defer c.Close()
	var e events
	r := f.runOf(c, one(succeed), worker.Options{Hooks: e.hooks()})
	f.AwaitWaiter("t")
	f.push("a", "t")
	until(t, "the scripts are known", func() bool { return e.count("done a") == 1 })
	h.Hold("ready_queue:t\r")
	f.push("b", "t")
	next(t, h.Sent)
	f.expectJob("b", client.StateReserved, 1)
	r.cancel()
	h.Pass <- nil
	r.stop()
	e.expect(t, "started a", "done a")
	f.expectJob("b", client.StateReady, 0)
}

// Run returns although Redis hangs.
func TestStopWhileRedisHangs(t *testing.T) {
	t.Parallel()
	f := start(t, alone)
	var e events
	g := newGate()
	f.push("a", "t")
	f.push("b", "t")
	r := f.runOf(f.open(client.PoolOptions{ReadTimeout: time.Hour}), one(g.handle), worker.Options{Grace: -1, Hooks: e.hooks()})
	next(t, g.inside)
	next(t, g.inside)
	f.Hang()
	defer f.Continue()
	r.cancel()
	g.leave <- nil // its result cannot be stored
	r.await()
	if e.count("stuck a")+e.count("stuck b") != 1 {
		t.Errorf("events %q, want one stuck", e.all())
	}
	f.Continue()
	g.leave <- nil
}

// A worker can be run again, even concurrently; with an ended context it does nothing.
func TestRunAgain(t *testing.T) {
	f := start(t)
	var e events
	w := worker.New(f.Client, one(succeed), worker.Options{Hooks: e.hooks()})
	f.push("a", "t")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check(t, w.Run(ctx))
	f.expectJob("a", client.StateReady, 0)
	for _, id := range []string{"a", "b"} {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		for range 2 {
			go func() { ended <- w.Run(ctx) }()
		}
		if id != "a" {
			f.push(id, "t")
		}
		until(t, id+" is done", func() bool { return e.count("done "+id) == 1 })
		cancel()
		for range 2 {
			check(t, next(t, ended))
		}
	}
	e.expect(t, "started a", "done a", "started b", "done b")
}
