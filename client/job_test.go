package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
)

func TestGet(t *testing.T) {
	f := start(t)
	message := client.Message{ID: "a", Topic: "t", Body: "old"}
	forever := []string{"HSET delayer:job_bucket:a topic t body old", "LPUSH delayer:ready_queue:t a"}
	for _, tt := range []struct {
		name    string
		before  []string
		want    client.Job // Due left out
		due     time.Duration
		wantErr error
	}{
		{"waiting", waiting("a", "t"), client.Job{Message: message, State: client.Waiting, TTL: time.Hour}, 1000 * time.Second, nil},
		{"due, not yet moved", append(bucket("a", "t"), "ZADD delayer:job_pool in-1 a"), client.Job{Message: message, State: client.Waiting, TTL: time.Hour}, -time.Second, nil},
		{"ready", ready("a", "t"), client.Job{Message: message, State: client.Ready, TTL: time.Hour}, 0, nil},
		{"kept for ever", forever, client.Job{Message: message, State: client.Ready, TTL: -1}, 0, nil},
		{"absent", nil, client.Job{}, 0, client.ErrNotFound},
		{"orphan", []string{"ZADD delayer:job_pool in+5 a"}, client.Job{}, 0, client.ErrNotFound},
		{"ghost", entry("a", "t"), client.Job{}, 0, client.ErrNotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := f.with(t)
			from := f.clock()
			f.seed(tt.before...)
			to := f.clock()
			before := f.state()
			job, err := f.Get(context.Background(), "a")
			if !errors.Is(err, tt.wantErr) {
				t.Errorf("error %v, want %v", err, tt.wantErr)
			}
			f.expect(before)
			if job.State == client.Waiting {
				expectSpan(t, "due", float64(job.Due.UnixMicro())/1e6, from+tt.due.Seconds(), to+tt.due.Seconds())
				job.Due = time.Time{}
			}
			if lived := tt.want.TTL - job.TTL; lived < 0 || lived > hangBound {
				t.Errorf("TTL %v, want %v", job.TTL, tt.want.TTL)
			}
			job.TTL = tt.want.TTL
			if job != tt.want {
				t.Errorf("got %+v, want %+v", job, tt.want)
			}
		})
	}
}

func TestRemove(t *testing.T) {
	f := start(t)
	others := all(waiting("w", "t"), ready("x", "t"))
	rest := state{Pool: []string{"w"}, Ready: queues{"t": {"x"}}, Buckets: buckets{"w": "t old", "x": "t old"}}
	ghost := state{Pool: []string{"w"}, Ready: queues{"t": {"a", "x"}}, Buckets: rest.Buckets}
	for _, tt := range []struct {
		name   string
		before []string
		want   bool
		after  state
	}{
		{"waiting", waiting("a", "t"), true, rest},
		{"due, not yet moved", append(bucket("a", "t"), "ZADD delayer:job_pool in-1 a"), true, rest},
		{"ready", ready("a", "t"), true, rest},
		{"in a queue twice", append(ready("a", "t"), entry("a", "t")...), true, rest},
		{"absent", nil, false, rest},
		{"orphan", []string{"ZADD delayer:job_pool in+5 a"}, false, rest},
		{"expired, still in the queue", entry("a", "t"), false, ghost},
		{"popped by an old client that has not read it yet", bucket("a", "t"), true, rest},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := f.with(t)
			f.seed(all(tt.before, others)...)
			removed, err := f.Remove(context.Background(), "a")
			if removed != tt.want || err != nil {
				t.Errorf("Remove = %v, %v, want %v", removed, err, tt.want)
			}
			f.expect(tt.after)
			if removed, err := f.Remove(context.Background(), "a"); removed || err != nil {
				t.Errorf("Remove again = %v, %v", removed, err)
			}
			if m, err := f.Pop(context.Background(), "t"); err != nil || m.ID != "x" {
				t.Errorf("Pop = %v, %v, want the other job", m, err)
			}
		})
	}
}

func TestReschedule(t *testing.T) {
	f := start(t)
	waits := state{Pool: []string{"a"}, Buckets: buckets{"a": "t old"}}
	isReady := state{Ready: queues{"t": {"a"}}, Buckets: waits.Buckets}
	for _, tt := range []struct {
		name    string
		before  []string
		delay   time.Duration
		wantErr error
		want    state
		wantDue time.Duration
		kept    time.Duration // once ready
	}{
		{"waiting: later", waiting("a", "t"), 3000 * time.Second, nil, waits, 3000 * time.Second, 2600 * time.Second},
		{"waiting: sooner", waiting("a", "t"), time.Second, nil, waits, time.Second, 2600 * time.Second},
		{"waiting: ready at once", waiting("a", "t"), 0, nil, isReady, never, 2600 * time.Second},
		{"ready: postponed", ready("a", "t"), time.Second, nil, waits, time.Second, time.Hour},
		{
			"ready: others stay", all(ready("b", "t"), ready("a", "t"), ready("c", "t")), time.Second, nil,
			state{Pool: []string{"a"}, Ready: queues{"t": {"b", "c"}}, Buckets: buckets{"a": "t old", "b": "t old", "c": "t old"}},
			time.Second, time.Hour,
		},
		{"ready: stays so", ready("a", "t"), 0, nil, isReady, never, time.Hour},
		{"longest delay", waiting("a", "t"), client.MaxDelay, nil, waits, client.MaxDelay, 2600 * time.Second},
		{"absent", nil, time.Second, client.ErrNotFound, state{}, never, 0},
		{"orphan", []string{"ZADD delayer:job_pool in+5 a"}, time.Second, client.ErrNotFound, state{Pool: []string{"a"}}, 5 * time.Second, 0},
		{"ghost", entry("a", "t"), time.Second, client.ErrNotFound, state{Ready: queues{"t": {"a"}}}, never, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := f.with(t)
			from := f.clock()
			f.seed(tt.before...)
			err := f.Reschedule(context.Background(), "a", tt.delay)
			to := f.clock()
			if !errors.Is(err, tt.wantErr) {
				t.Errorf("error %v, want %v", err, tt.wantErr)
			}
			f.expect(tt.want)
			expectDue(t, f.due("a"), from, to, tt.wantDue)
			if err == nil {
				// What was kept is reckoned from one moment, the new delay from another.
				expires := tt.kept + max(tt.wantDue, 0)
				expectSpan(t, "expiry", f.expires("a"), from+expires.Seconds(), to+expires.Seconds()+0.002)
			}
		})
	}
}

func TestErrorsNameOperationAndJob(t *testing.T) {
	f := start(t)
	_, err := f.Get(t.Context(), "order-1")
	if want := `delayer: get "order-1": no such job`; err == nil || err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
	_, err = f.BPop(t.Context(), 1, "z", "a", "a")
	if want := `delayer: bpop "z, a, a": `; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %q, want %q in front", err, want)
	}
}

// Get tells for how long the producer wants the job reserved, in each of its states.
func TestGetTellsTTR(t *testing.T) {
	f := start(t)
	expect := func(state client.State, ttr time.Duration) {
		t.Helper()
		job, err := f.Get(t.Context(), "a")
		if err != nil || job.State != state || job.TTR != ttr {
			t.Errorf("got %s, TTR %v, %v; want %s, %v", job.State, job.TTR, err, state, ttr)
		}
	}
	push := func(delay time.Duration, opts ...client.PushOption) {
		t.Helper()
		_, err := f.Push(t.Context(), client.Message{ID: "a", Topic: "t", Body: "b"}, delay, opts...)
		check(t, err)
	}
	push(time.Hour)
	expect(client.Waiting, 0)
	push(time.Hour, client.MaxAttempts(2))
	expect(client.Waiting, 0)
	push(time.Hour, client.TTR(1500*time.Microsecond)) // it is kept in whole ms, rounded up
	expect(client.Waiting, 2*time.Millisecond)
	push(0, client.TTR(client.MaxLease))
	expect(client.Ready, client.MaxLease)
	d := f.reserve("t")
	expect(client.Reserved, client.MaxLease)
	check(t, d.Bury(t.Context(), "tried"))
	expect(client.Dead, client.MaxLease)
}
