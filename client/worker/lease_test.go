package worker_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// ends returns when each reserved job's lease ends, in Unix seconds.
func (f *fixture) ends() map[string]float64 {
	f.TB.Helper()
	ends := map[string]float64{}
	for id, score := range f.Scores() {
		end, err := strconv.ParseFloat(score, 64)
		check(f.TB, err)
		ends[id] = end
	}
	return ends
}

// The leases of all jobs in hand are extended together, with one call each time.
func TestLeasesAreRenewed(t *testing.T) {
	t.Parallel()
	const jobs, renewals = 20, 2
	f := start(t, alone, undivided)
	g := newGate()
	var e events
	f.pushMany(jobs, "", "t")
	f.run(one(g.handle), worker.Options{Concurrency: jobs + 1, Lease: 3 * time.Second, Hooks: e.hooks()})
	for range jobs {
		next(t, g.inside)
	}
	f.AwaitWaiter("t")
	f.AwaitProgram()
	last := f.ends()
	f.Do("CONFIG", "RESETSTAT")
	for range renewals {
		var ends map[string]float64
		until(t, "all leases are extended", func() bool {
			ends = f.ends()
			for id, end := range ends {
				if end == last[id] {
					return false
				}
			}
			return true
		})
		last = ends
	}
	if n := f.Calls("evalsha", "eval") - f.Calls("exists"); n > renewals+2 { // one EVAL loads the script; each EXISTS is a poll
		t.Errorf("%d calls for %d renewals of %d leases", n, renewals, jobs)
	}
	for range jobs {
		g.leave <- nil
	}
	until(t, "all are done", func() bool { return len(e.all()) == 2*jobs })
	f.expectNothing()
}

// A lease lasts as long as the producer wants unless the worker overrides that, less a few round trips.
func TestLeaseOfTheProducer(t *testing.T) {
	const shortest = 100 * time.Millisecond
	f := start(t)
	for _, c := range []struct {
		options worker.Options
		topic   time.Duration // the topic's lease
		push    []client.PushOption
		want    time.Duration
	}{
		{worker.Options{}, 0, nil, 30 * time.Second},
		{worker.Options{}, 0, []client.PushOption{client.JobOptions{Lease: time.Hour}}, time.Hour},
		{worker.Options{Lease: time.Minute}, 0, []client.PushOption{client.JobOptions{Lease: time.Hour}}, time.Minute},
		{worker.Options{}, 0, []client.PushOption{client.JobOptions{Lease: time.Millisecond}}, shortest},
		{worker.Options{Lease: time.Millisecond}, 0, nil, shortest},
		{worker.Options{Lease: time.Minute}, time.Millisecond, nil, shortest},
	} {
		g := newGate()
		r := f.run(one(g.handle, worker.TopicOptions{Lease: c.topic}), c.options)
		before := f.clock()
		f.push("a", "t", c.push...)
		next(t, g.inside)
		due, after := f.get("a").Due, f.clock()
		if due.Before(before.Add(c.want)) || due.After(after.Add(c.want+time.Millisecond)) {
			t.Errorf("the lease ends %v to %v after the reserve, want %v", due.Sub(after), due.Sub(before), c.want)
		}
		g.leave <- nil
		r.stop()
	}
}

// A job that runs longer than its producer's lease is logged each time that another lease is over.
func TestJobsLongerThanTheirLeases(t *testing.T) {
	t.Parallel()
	f := start(t)
	g := newGate()
	var log redistest.Log
	f.push("short", "t", client.JobOptions{Lease: 300 * time.Millisecond})
	f.push("long", "t", client.JobOptions{Lease: time.Hour})
	r := f.run(one(g.handle), worker.Options{Logger: log.Logger()})
	logged := func() []string {
		return log.Lines("level=WARN", "runs longer than its lease", "job=short attempt=1 lease=300ms")
	}
	until(t, "two leases are over", func() bool { return len(logged()) >= 2 })
	for i, line := range logged() {
		_, text, _ := strings.Cut(line, "running=")
		if running, err := time.ParseDuration(strings.TrimSpace(text)); err != nil || running < time.Duration(i+1)*300*time.Millisecond {
			t.Errorf("line %d: running for %v, %v", i+1, running, err)
		}
	}
	g.leave <- nil
	g.leave <- nil
	r.stop()
	log.Expect(t, len(logged()), "level=")
}

// When a lease is lost, its handler's context ends, and its result is reported as lost.
func TestLeaseLost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		result error
	}{{"success", nil}, {"failure", errors.New("no")}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := start(t)
			var log redistest.Log
			h := f.hold(f.Client, worker.Options{Lease: time.Second, Logger: log.Logger()})
			_, err := f.Remove(t.Context(), "a")
			check(t, err)
			h.expectLost()
			h.leave <- c.result
			h.events.await(t, "started a", "lease lost a")
			log.Expect(t, 1, "level=WARN", "lease lost", "topic=t job=a attempt=1")
			log.Expect(t, 1, "level=")
			f.expectNothing()
		})
	}
}

// The context ends with the lease even if Redis does not reply.
func TestLeaseEndsWhileRedisHangs(t *testing.T) {
	t.Parallel()
	f := start(t, alone)
	h := f.hold(f.open(client.PoolOptions{ReadTimeout: time.Hour}), worker.Options{Lease: time.Second, Grace: -1})
	f.Hang()
	defer f.Continue()
	h.expectLost()
	h.leave <- errors.New("ended")
	h.events.await(t, "started a", "lease lost a")
}

// expectLost waits until the handler's context ends, which must be because of the lease.
func (h atGate) expectLost() {
	h.t.Helper()
	ctx := next(h.t, h.ctx)
	next(h.t, ctx.Done())
	if cause := context.Cause(ctx); cause != client.ErrLeaseLost {
		h.t.Errorf("its context has ended by %v, want ErrLeaseLost", cause)
	}
}

// A result is stored once Redis is back, and the job is not redelivered.
func TestRedisAwayWhileReporting(t *testing.T) {
	for _, c := range []struct {
		name   string
		result error
		want   []string
		state  client.State
	}{
		{"success", nil, []string{"started a", "done a"}, ""},
		{"failure", worker.RetryAfter(errors.New("no"), time.Hour), []string{"started a", "failed a", "retried a after 1h0m0s"}, client.StateWaiting},
		{"bury", worker.Bury(errors.New("no")), []string{"started a", "failed a", "buried a"}, client.StateDead},
		{"release", worker.Release(time.Hour), []string{"started a", "released a for 1h0m0s"}, client.StateWaiting},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := start(t, settings("--appendonly", "yes", "--appendfsync", "always"))
			h := f.hold(f.Client, worker.Options{})
			f.Kill()
			h.leave <- c.result
			h.cancel() // has no effect
			until(t, "the report is tried", reporting)
			f.Restart()
			h.stop()
			h.expect(t, c.want...)
			if job := f.get("a"); job.State != c.state {
				t.Errorf("the job is %q, want %q", job.State, c.state)
			}
		})
	}
}

// A permanent refusal is logged, and the job is redelivered.
func TestRefusedForGood(t *testing.T) {
	f := start(t, alone)
	f.Do("ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all")
	var log redistest.Log
	h := f.hold(f.open(client.PoolOptions{Username: "u", Password: "p"}), worker.Options{Logger: log.Logger()})
	f.AwaitWaiter("t")
	f.Do("ACL", "SETUSER", "u", "-del", "-zrem")
	h.leave <- nil
	h.events.await(t, "started a", "lease lost a")
	log.Expect(t, 1, "level=ERROR", "can't acknowledge the job", "job=a", "NOPERM")
	f.expectJob("a", client.StateReserved, 1)
}

// An outage at the time of an extension costs no lease if Redis is back before the leases end.
func TestRedisAwayWhileExtending(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	f := start(t, settings("--appendonly", "yes", "--appendfsync", "always"))
	h := f.hold(f.Client, worker.Options{Lease: lease})
	before, began := f.ends()["a"], time.Now()
	f.Kill()
	until(t, "the time of the renewal is over", func() bool { return time.Since(began) > lease/3+lease/20 })
	f.Restart()
	until(t, "the lease is extended", func() bool { return f.ends()["a"] > before })
	if ctx := next(t, h.ctx); ctx.Err() != nil {
		t.Errorf("the handler's context has ended: %v", context.Cause(ctx))
	}
	h.leave <- nil
	h.events.await(t, "started a", "done a")
	f.expectNothing()
}
