package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// stubborn is a handler that ignores its context for jobs whose IDs begin with "stuck", until the test sends them an error. It
// succeeds for others.
type stubborn struct {
	leave chan error
	*events
}

func (s stubborn) handle(_ context.Context, job *worker.Job) error {
	if strings.HasPrefix(job.ID, "stuck") {
		return <-s.leave
	}
	return nil
}

// runStubborn runs a worker of the topics t and u with stubborn handlers.
func (f *fixture) runStubborn(o worker.Options) stubborn {
	f.TB.Helper()
	s := stubborn{make(chan error), new(events)}
	o.Hooks, o.Timeout, o.StuckAfter = s.hooks(), 20*time.Millisecond, 20*time.Millisecond
	redistest.Background(f.TB, worker.New(f.Client, muxOf(s.handle, "t", "u"), o).Run)
	return s
}

// A handler that does not return after its timeout costs its slot for StuckAfter: its attempt has failed, and others are handled.
func TestHandlerIsGivenUp(t *testing.T) {
	f := start(t, undivided)
	f.push("stuck", "t", client.JobOptions{MaxAttempts: 1})
	f.push("next", "t")
	var log redistest.Log
	s := f.runStubborn(worker.Options{Concurrency: 1, Logger: log.Logger()})
	f.expectDead("stuck", 1, "used up", "has not returned within 20ms after its context ended: the timeout of 20ms has passed")
	f.expectJob("next", "", 0)
	until(t, "all is told", func() bool { return len(s.all()) == 6 })
	for id, want := range map[string][]string{"stuck": {"started stuck", "stuck stuck", "failed stuck", "buried stuck"}, "next": {"started next", "done next"}} {
		got := slices.DeleteFunc(s.all(), func(event string) bool { return !strings.HasSuffix(event, " "+id) })
		if !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
	}
	log.Expect(t, 1, "level=ERROR", "handler does not return", "given up", "topic=t job=stuck attempt=1")
	s.leave <- errors.New("late")
	until(t, "its return is logged", func() bool { return len(log.Lines("handler has returned after it was given up")) == 1 })
	f.push("last", "t")
	f.expectJob("last", "", 0)
	if job := f.get("stuck"); strings.Contains(job.Error, "late") || job.Attempts != 1 {
		t.Errorf("its later result counts: %+v", job)
	}
}

// A handler that does not return after its lease was lost is given up, too. The job is another's by then.
func TestHandlerWithoutLeaseIsGivenUp(t *testing.T) {
	f := start(t)
	g, e := newGate(), new(events)
	f.push("a", "t")
	f.run(one(g.handle), worker.Options{Concurrency: 1, Lease: 300 * time.Millisecond, StuckAfter: time.Millisecond, Hooks: e.hooks()})
	next(t, g.inside)
	if was, err := f.Remove(t.Context(), "a"); err != nil || was != client.StateReserved {
		t.Fatal(was, err)
	}
	e.await(t, "started a", "stuck a", "lease lost a")
	f.push("b", "t")
	next(t, g.inside)
	g.leave <- nil
	g.leave <- nil
	e.await(t, "started a", "stuck a", "lease lost a", "started b", "done b")
}

// No more handlers are given up at a time than there are slots. Their jobs are retried all the same, and other topics have the slots
// that are left.
func TestTooManyStuckHandlers(t *testing.T) {
	const slots = 2
	f := start(t, undivided)
	var log redistest.Log
	s := f.runStubborn(worker.Options{Concurrency: slots, Logger: log.Logger()})
	for i := range slots + 1 {
		id := fmt.Sprint("stuck", i)
		f.push(id, "t", client.JobOptions{MaxAttempts: 1})
		f.expectDead(id, 1, "used up", "has not returned")
	}
	log.Expect(t, 1, "level=ERROR", "the topic takes no more jobs until one of its handlers returns", "topic=t job=stuck2")
	f.push("waits", "t")
	f.push("other", "u")
	f.expectJob("other", "", 0)
	f.expectJob("waits", client.StateReady, 0)
	s.leave <- nil
	f.expectJob("waits", "", 0)
	for range slots {
		s.leave <- nil
	}
	until(t, "all have returned", func() bool { return len(log.Lines("handler has returned after it was given up")) == slots+1 })
	f.push("free", "t")
	f.expectJob("free", "", 0)
}

// StuckAfter below 0 gives up no handler.
func TestNoHandlerIsGivenUp(t *testing.T) {
	f := start(t)
	h := f.hold(f.Client, worker.Options{Lease: 100 * time.Millisecond, Timeout: time.Millisecond, StuckAfter: -1})
	ctx := next(t, h.ctx)
	<-ctx.Done()
	for range 2 { // leases are extended all the same
		end := f.ends()["a"]
		until(t, "its lease is extended", func() bool { return f.ends()["a"] != end })
	}
	h.leave <- nil
	h.events.await(t, "started a", "done a")
}

// absent is an error type whose nil pointer panics.
type absent struct{ what string }

func (a *absent) Error() string { return a.what + " is absent" }

// A panic in any of the program's functions counts as an error of its job, or is logged, and ends nothing.
func TestPanicsOfTheProgram(t *testing.T) {
	boom := func() { panic("boom") }
	hooks := worker.Hooks{
		Started: func(*worker.Job) { boom() }, Done: func(*worker.Job, time.Duration) { boom() },
		Failed: func(*worker.Job, time.Duration, error) { boom() }, Retried: func(*worker.Job, time.Duration, error) { boom() },
		Buried: func(*worker.Job, error) { boom() }, Released: func(*worker.Job, time.Duration) { boom() },
	}
	for _, c := range []struct {
		name    string
		err     error
		options worker.Options
		state   client.State
		error   string
		logged  []string // panics in these
	}{
		{name: "typed nil", err: (*absent)(nil), state: client.StateWaiting, error: "panic: runtime error"},
		{name: "typed nil, buried", err: worker.Bury((*absent)(nil)), state: client.StateWaiting, error: "panic: runtime error"},
		{name: "backoff", err: errors.New("no"), options: worker.Options{Backoff: func(*worker.Job, error) time.Duration { panic("boom") }}, state: client.StateWaiting, error: "no", logged: []string{"Backoff"}},
		{name: "hooks, done", options: worker.Options{Hooks: hooks}, logged: []string{"Started", "Done"}},
		{name: "hooks, retried", err: worker.RetryAfter(errors.New("no"), time.Hour), options: worker.Options{Hooks: hooks}, state: client.StateWaiting, error: "no", logged: []string{"Started", "Failed", "Retried"}},
		{name: "hooks, buried", err: worker.Bury(errors.New("no")), options: worker.Options{Hooks: hooks}, state: client.StateDead, error: "no", logged: []string{"Started", "Failed", "Buried"}},
		{name: "hooks, released", err: worker.Release(time.Hour), options: worker.Options{Hooks: hooks}, state: client.StateWaiting, logged: []string{"Started", "Released"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := start(t)
			var log redistest.Log
			if c.options.Logger = log.Logger(); c.options.Backoff == nil {
				c.options.Backoff = func(*worker.Job, error) time.Duration { return time.Hour }
			}
			f.push("a", "t")
			r := f.run(one(func(context.Context, *worker.Job) error { return c.err }), c.options)
			var job client.JobInfo
			until(t, "it is settled", func() bool { job = f.get("a"); return job.State == c.state })
			if !strings.Contains(job.Error, c.error) {
				t.Errorf("error %q, want %q", job.Error, c.error)
			}
			r.stop()
			for _, name := range c.logged {
				log.Expect(t, 1, "panic in "+name, "panic=boom", "job=a")
			}
			log.Expect(t, len(c.logged), "panic in ")
		})
	}
}

// A worker whose user may not PING handles jobs again after an outage, and says that Redis is back without waiting for one.
func TestOutageWithoutPing(t *testing.T) {
	f := start(t, settings("--user", "u", "on", ">p", "~*", "&*", "+@all", "-ping"))
	var log redistest.Log
	handled := make(chan string, 10)
	f.runOf(f.open(client.PoolOptions{Username: "u", Password: "p"}), one(deliver(handled)), worker.Options{Logger: log.Logger()})
	f.AwaitWaiter("t")
	f.Kill()
	until(t, "the outage is logged", func() bool { return len(log.Lines("can't fetch jobs")) == 1 })
	f.Restart()
	until(t, "its end is logged", func() bool { return len(log.Lines("fetches jobs again")) == 1 })
	f.push("a", "t")
	next(t, handled)
}
