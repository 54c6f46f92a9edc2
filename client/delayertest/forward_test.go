package delayertest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/delayertest"
	"github.com/mix-basic/delayer/client/worker"
)

// TestForward: due times are exact to the millisecond, whatever was called before.
func TestForward(t *testing.T) {
	t.Parallel()
	d := delayertest.New(t)
	began := d.Now()
	push(t, d, "a", 30*time.Minute)
	push(t, d, "b", 30*time.Minute-time.Microsecond) // rounded up
	push(t, d, "c", 20*time.Minute)
	push(t, d, "now", 0)
	expect(t, d, "now ready 0", "c waiting 0 in 20m0s", "a waiting 0 in 30m0s", "b waiting 0 in 30m0s")
	d.Forward(t, 10*time.Minute)
	runScripts(t, d)
	expect(t, d, "now ready 0", "c waiting 0 in 10m0s", "a waiting 0 in 20m0s", "b waiting 0 in 20m0s")
	d.Forward(t, 20*time.Minute-time.Millisecond)
	expect(t, d, "now ready 0", "c ready 0", "a waiting 0 in 1ms", "b waiting 0 in 1ms")
	d.Forward(t, 0)
	expect(t, d, "now ready 0", "c ready 0", "a waiting 0 in 1ms", "b waiting 0 in 1ms")
	d.Forward(t, time.Nanosecond)
	expect(t, d, "now ready 0", "c ready 0", "a ready 0", "b ready 0")
	if passed := d.Now().Sub(began); passed != 30*time.Minute {
		t.Errorf("%v have passed", passed)
	}
}

// TestForwardGroup: a group is due after a quiet period and then accepts no more pushes.
func TestForwardGroup(t *testing.T) {
	d := delayertest.New(t)
	push := func(body string) client.Outcome {
		pushed, err := d.Client().Push(t.Context(), client.Message{Topic: "t", Body: body}, 0, client.Group{Key: "k", Quiet: time.Minute, Longest: 150 * time.Second})
		check(t, err)
		return pushed.Outcome
	}
	var did []client.Outcome
	for n := range 4 {
		did = append(did, push(fmt.Sprint(n)))
		d.Forward(t, 50*time.Second)
	}
	if want := []client.Outcome{client.OutcomeCreated, client.OutcomeAdded, client.OutcomeAdded, client.OutcomeCreated}; !slices.Equal(did, want) {
		t.Errorf("the pushes did %v, want %v", did, want)
	}
	if job := d.Due(t, "t", 0); job.Body != "[0,1,2]" {
		t.Errorf("got %+v", job)
	}
	if job := d.Due(t, "t", 10*time.Second); job.Body != "[3]" {
		t.Errorf("got %+v", job)
	}
}

// TestForwardLease: a lease ends on time and its job is redelivered.
func TestForwardLease(t *testing.T) {
	t.Parallel()
	d := delayertest.New(t)
	push(t, d, "a", time.Minute)
	d.Forward(t, time.Minute+3*time.Second)
	first := reserve(t, d, 30*time.Second)
	if first.Attempt != 1 || first.LateBy != 3*time.Second {
		t.Errorf("attempt %d, late by %v", first.Attempt, first.LateBy)
	}
	d.Forward(t, 30*time.Second-time.Millisecond)
	expect(t, d, "a reserved 1")
	d.Forward(t, time.Millisecond)
	expect(t, d, "a ready 1")
	if err := first.Ack(t.Context()); !errors.Is(err, client.ErrLeaseLost) {
		t.Errorf("Ack: %v", err)
	}
	second := reserve(t, d, time.Second)
	if second.Attempt != 2 || second.Token <= first.Token {
		t.Errorf("attempt %d, token %d after %d", second.Attempt, second.Token, first.Token)
	}
	check(t, second.Ack(t.Context()))
	expect(t, d)
}

// TestLeasesAtOneTime: a job is reserved twice while the clock stands still, and only the second lease can change the
// job.
func TestLeasesAtOneTime(t *testing.T) {
	t.Parallel()
	d := delayertest.New(t)
	for n := range 10 {
		if n == 5 {
			runScripts(t, d)
		}
		push(t, d, "a", 0)
		first := reserve(t, d, time.Minute)
		_, err := d.Client().Remove(t.Context(), "a")
		check(t, err)
		push(t, d, "a", 0)
		second := reserve(t, d, time.Minute)
		if err := first.Ack(t.Context()); !errors.Is(err, client.ErrLeaseLost) {
			t.Fatalf("the first one's Ack: %v", err)
		}
		if err := second.Ack(t.Context()); err != nil {
			t.Fatalf("the second one's Ack: %v", err)
		}
	}
}

// TestForwardLifetime: jobs are dead letters at the end of their lifetimes, even if one call covers whole lifetimes. So
// no consumer gets them.
func TestForwardLifetime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		kept  time.Duration
		early time.Duration // how long before its end the job may be buried
		opts  []client.PushOption
	}{
		{"plain", 7 * 24 * time.Hour, 2 * time.Minute, nil},
		{"kept for an hour", time.Hour, 3 * time.Minute, []client.PushOption{client.JobOptions{ExpireAfter: time.Hour}}},
		{"kept for a second", time.Second, 50 * time.Millisecond, []client.PushOption{client.JobOptions{ExpireAfter: time.Second}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := delayertest.New(t)
			push(t, d, "a", 10*time.Minute, c.opts...)
			d.Forward(t, 10*time.Minute+c.kept-c.early-time.Millisecond)
			expect(t, d, "a ready 0")
			d.Forward(t, time.Millisecond)
			expect(t, d, "a dead 0")
			push(t, d, "b", 10*time.Minute, c.opts...)
			d.Forward(t, 10*24*time.Hour)
			expect(t, d, "b dead 0", "a dead 0")
			if _, err := d.Client().Pop(t.Context(), topic); !errors.Is(err, client.ErrEmpty) {
				t.Errorf("Pop: %v", err)
			}
		})
	}
}

// TestForwardPlainAgain: a plain job becomes a dead letter, too, if its topic had no jobs for a long time.
func TestForwardPlainAgain(t *testing.T) {
	t.Parallel()
	d := delayertest.New(t)
	push(t, d, "a", 0)
	check(t, reserve(t, d, 0).Ack(t.Context()))
	d.Forward(t, 3*time.Hour)
	push(t, d, "b", 0)
	d.Forward(t, 8*24*time.Hour)
	expect(t, d, "b dead 0")
}

// TestForwardExpired: a job behind one that is kept for longer is gone, and the server removes it from the queue.
func TestForwardExpired(t *testing.T) {
	t.Parallel()
	d := delayertest.New(t)
	push(t, d, "a", 0)
	push(t, d, "b", 0, client.JobOptions{ExpireAfter: time.Hour})
	d.Forward(t, 24*time.Hour)
	expect(t, d, "a ready 0")
	d.Forward(t, 7*24*time.Hour)
	expect(t, d, "a dead 0")
	c, err := client.Open(d.URL(), client.WithHooks(client.Hooks{Stale: func(ids []string) { t.Errorf("%q are stale", ids) }}))
	check(t, err)
	defer c.Close()
	if _, err := c.Pop(t.Context(), topic); !errors.Is(err, client.ErrEmpty) {
		t.Errorf("Pop: %v", err)
	}
}

// TestForwardDead: dead letters are kept for 14 days.
func TestForwardDead(t *testing.T) {
	t.Parallel()
	d := delayertest.New(t)
	push(t, d, "a", 0)
	check(t, reserve(t, d, 0).Bury(t.Context(), errors.New("torn")))
	d.Forward(t, 14*24*time.Hour-time.Second)
	expect(t, d, "a dead 1")
	d.Forward(t, 2*time.Second)
	expect(t, d)
}

// TestForwardRun: a running worker gets due jobs and retries.
func TestForwardRun(t *testing.T) {
	t.Parallel()
	d := delayertest.New(t)
	attempts := make(chan int)
	w := newWorker(d, func(_ context.Context, job *worker.Job) error {
		attempts <- job.Attempt
		if job.Attempt == 1 {
			return errors.New("no paper")
		}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	push(t, d, "a", time.Hour)
	d.Forward(t, time.Hour)
	if attempt := <-attempts; attempt != 1 {
		t.Errorf("attempt %d", attempt)
	}
	for len(d.Jobs(t, topic, client.StateWaiting)) == 0 { // the retry is stored soon
		time.Sleep(time.Millisecond)
	}
	d.Due(t, topic, time.Minute)
	d.Forward(t, time.Minute)
	if attempt := <-attempts; attempt != 2 {
		t.Errorf("attempt %d", attempt)
	}
	cancel()
	check(t, <-ended)
	expect(t, d)
}

// TestParallel: some subtests share a Delayer and have their own topics, others have their own Delayer.
func TestParallel(t *testing.T) {
	t.Parallel()
	shared := delayertest.New(t)
	for n := range 4 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			own := delayertest.New(t)
			push(t, own, "own", time.Minute)
			name := fmt.Sprint("topic", n)
			var pushing sync.WaitGroup
			for k := range 5 {
				pushing.Go(func() {
					m := client.Message{ID: fmt.Sprint(n, ".", k), Topic: name, Body: "b"}
					if _, err := shared.Client().Push(t.Context(), m, time.Duration(k)*time.Second); err != nil {
						t.Error(err)
					}
					shared.Forward(t, time.Second)
				})
			}
			pushing.Wait()
			shared.Forward(t, 5*time.Second)
			if ready := shared.Jobs(t, name, client.StateReady); len(ready) != 5 {
				t.Errorf("%d jobs are ready, want 5", len(ready))
			}
			expect(t, own, "own waiting 0 in 1m0s")
		})
	}
}

// TestURL: another Client sees the same jobs.
func TestURL(t *testing.T) {
	t.Parallel()
	d := delayertest.New(t)
	c, err := client.Open(d.URL())
	check(t, err)
	defer c.Close()
	_, err = c.Push(t.Context(), client.Message{ID: "a", Topic: topic, Body: "b"}, time.Minute)
	check(t, err)
	expect(t, d, "a waiting 0 in 1m0s")
}

// A job due now is ready, even if the code under test computed the time.
func TestPushAtNow(t *testing.T) {
	d := delayertest.New(t)
	for range 3 { // whatever scripts ran before
		for _, tt := range []struct {
			at    time.Duration
			state client.State
		}{{-time.Hour, client.StateReady}, {-time.Millisecond, client.StateReady}, {0, client.StateReady}, {time.Microsecond, client.StateWaiting}, {time.Millisecond, client.StateWaiting}} {
			_, err := d.Client().PushAt(t.Context(), client.Message{ID: "a", Topic: "t", Body: "b"}, d.Now().Add(tt.at))
			check(t, err)
			if job := d.Jobs(t, "t")[0]; job.State != tt.state {
				t.Errorf("due in %v: %s, want %s", tt.at, job.State, tt.state)
			}
		}
		d.Forward(t, time.Millisecond)
		d.Due(t, "t", 0)
		_, err := d.Client().Reserve(t.Context(), time.Hour, "t")
		check(t, err)
	}
}

// Each occurrence of each schedule in a year has its job on time.
func TestForwardThroughAYearOfSchedules(t *testing.T) {
	d := delayertest.New(t)
	c, ctx := d.Client(), t.Context()
	zone, err := time.LoadLocation("America/New_York")
	check(t, err)
	for name, cron := range map[string]string{"daily": "30 2 * * *", "monthly": "0 0 1 * *"} {
		if _, err := c.Schedules().Set(ctx, client.Schedule{Name: name, Cron: cron, Zone: zone.String(), Topic: name, Body: "b", Options: client.JobOptions{ExpireAfter: 1000 * 24 * time.Hour}}); err != nil {
			t.Fatal(err)
		}
	}
	from := d.Now()
	d.Forward(t, 365*24*time.Hour)
	all, err := c.Schedules().List(ctx)
	if err != nil || len(all) != 2 || all[0].Late+all[1].Late > 0 || all[0].Past[9].Late != 0 {
		t.Errorf("then there are %+v, %v", all, err)
	}
	var want, got []string
	for day := range 366 {
		at := time.Date(from.In(zone).Year(), from.In(zone).Month(), from.In(zone).Day()+day, 2, 30, 0, 0, zone)
		if at.Hour() != 2 { // that time does not exist; the job comes right after the gap
			at = time.Date(at.Year(), at.Month(), at.Day(), 3, 0, 0, 0, zone)
		}
		if at.After(from) && !at.After(d.Now()) {
			want = append(want, "{daily}@"+at.UTC().Format(time.RFC3339))
		}
	}
	for _, job := range d.Jobs(t, "daily") {
		got = append(got, job.ID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %.500v\nwant %.500v", got, want)
	}
	if n := len(d.Jobs(t, "monthly")); n != 12 {
		t.Errorf("%d jobs of months, want 12", n)
	}
}
