package client_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
)

const never = -1 // not waiting

func TestPush(t *testing.T) {
	f := start(t)
	hour := []client.PushOption{client.ReadyMaxLifetime(time.Hour)}
	policy := func(choice client.Existing) []client.PushOption {
		return []client.PushOption{client.ReadyMaxLifetime(time.Hour), client.IfExists(choice)}
	}
	pushed := buckets{"a": "t new"}
	waits := state{Pool: []string{"a"}, Buckets: pushed}
	isReady := state{Ready: queues{"t": {"a"}}, Buckets: pushed}
	unchanged := func(queue queues, pool ...string) state {
		return state{Pool: pool, Ready: queue, Buckets: buckets{"a": "t old"}}
	}
	for _, tt := range []struct {
		name    string
		before  []string
		delay   time.Duration
		opts    []client.PushOption
		wantErr error
		want    state
		wantDue time.Duration // from now
	}{
		{"new", nil, 10 * time.Second, hour, nil, waits, 10 * time.Second},
		{"new, ready at once", nil, 0, hour, nil, isReady, never},
		{"shortest delay", nil, 1, hour, nil, waits, time.Millisecond},
		{"longest delay", nil, client.MaxDelay, hour, nil, waits, client.MaxDelay},
		{"waiting: replaced", waiting("a", "t"), 2000 * time.Second, hour, nil, waits, 2000 * time.Second},
		{"waiting: sooner", waiting("a", "t"), time.Second, hour, nil, waits, time.Second},
		{"waiting: of another topic", waiting("a", "u"), time.Second, hour, nil, waits, time.Second},
		{"waiting: ready at once", waiting("a", "t"), 0, hour, nil, isReady, never},
		{
			"ready: postponed", all(ready("b", "t"), ready("a", "t"), ready("c", "t")), time.Second, hour, nil,
			state{Pool: []string{"a"}, Ready: queues{"t": {"b", "c"}}, Buckets: buckets{"a": "t new", "b": "t old", "c": "t old"}}, time.Second,
		},
		{
			"ready: last in the queue", all(ready("a", "t"), ready("b", "t")), 0, hour, nil,
			state{Ready: queues{"t": {"b", "a"}}, Buckets: buckets{"a": "t new", "b": "t old"}}, never,
		},
		{"ready: of another topic", ready("a", "u"), 0, hour, nil, isReady, never},
		{"ready: of another topic, postponed", ready("a", "u"), time.Second, hour, nil, waits, time.Second},
		{"orphan in the pool", []string{"ZADD delayer:job_pool in+5 a"}, time.Second, hour, nil, waits, time.Second},
		{
			"ghost in the queue", entry("a", "t"), time.Second, hour, nil,
			state{Pool: []string{"a"}, Ready: queues{"t": {"a"}}, Buckets: pushed}, time.Second,
		},

		{"replace, new", nil, time.Second, policy(client.Replace), nil, waits, time.Second},
		{"replace, waiting", waiting("a", "t"), time.Second, policy(client.Replace), nil, waits, time.Second},
		{"refuse, new", nil, time.Second, policy(client.Refuse), nil, waits, time.Second},
		{
			"refuse, waiting", waiting("a", "t"), time.Second, policy(client.Refuse), client.ErrExists,
			unchanged(nil, "a"), 1000 * time.Second,
		},
		{
			"refuse, ready", ready("a", "t"), time.Second, policy(client.Refuse), client.ErrExists,
			unchanged(queues{"t": {"a"}}), never,
		},
		{"refuse, orphan", []string{"ZADD delayer:job_pool in+5 a"}, time.Second, policy(client.Refuse), nil, waits, time.Second},
		{"earlier, new", nil, time.Second, policy(client.KeepEarlier), nil, waits, time.Second},
		{"earlier, waiting, is later", waiting("a", "t"), 2000 * time.Second, policy(client.KeepEarlier), nil, waits, 1000 * time.Second},
		{"earlier, waiting, is earlier", waiting("a", "t"), time.Second, policy(client.KeepEarlier), nil, waits, time.Second},
		{"earlier, ready", ready("a", "t"), time.Second, policy(client.KeepEarlier), nil, isReady, never},
		{"later, new", nil, time.Second, policy(client.KeepLater), nil, waits, time.Second},
		{"later, waiting, is later", waiting("a", "t"), 2000 * time.Second, policy(client.KeepLater), nil, waits, 2000 * time.Second},
		{"later, waiting, is earlier", waiting("a", "t"), time.Second, policy(client.KeepLater), nil, waits, 1000 * time.Second},
		{"later, waiting, ready at once", waiting("a", "t"), 0, policy(client.KeepLater), nil, waits, 1000 * time.Second},
		{"later, ready", ready("a", "t"), time.Second, policy(client.KeepLater), nil, waits, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := f.with(t)
			from := f.clock()
			f.seed(tt.before...)
			id, err := f.Push(context.Background(), client.Message{ID: "a", Topic: "t", Body: "new"}, tt.delay, tt.opts...)
			to := f.clock()
			if !errors.Is(err, tt.wantErr) || (err == nil) != (id == "a") {
				t.Errorf("Push = %q, %v, want error %v", id, err, tt.wantErr)
			}
			f.expect(tt.want)
			expectDue(t, f.due("a"), from, to, tt.wantDue)
			if err == nil {
				kept := max(tt.wantDue, 0) + time.Hour
				expectSpan(t, "expiry", f.expires("a"), from+kept.Seconds(), to+kept.Seconds())
			}
		})
	}
}

// expectDue checks that a score is the delay after a moment between from and
// to. Earlier than that it must never be.
func expectDue(t *testing.T, score, from, to float64, delay time.Duration) {
	t.Helper()
	if delay == never {
		if !math.IsNaN(score) {
			t.Errorf("waits until %f", score)
		}
		return
	}
	expectSpan(t, "due time", score, from+delay.Seconds(), to+delay.Seconds())
}

// expectSpan checks that a time is in the span or rounded up out of it. (Redis reckons
// a TTL by a clock that it reads once a command, to the millisecond.)
func expectSpan(t *testing.T, what string, got, from, to float64) {
	t.Helper()
	slack := 0.002
	if what == "due time" {
		from -= 1e-6 // floating point
	} else {
		from -= slack
	}
	if !(from <= got && got <= to+slack) {
		t.Errorf("%s %f is not from %f to %f", what, got, from, to)
	}
}

func TestPushAt(t *testing.T) {
	f := start(t)
	now := time.Now()
	for _, tt := range []struct {
		name string
		due  time.Time
		want float64 // the score; 0 means ready at once
	}{
		{"whole second", time.Unix(4102444800, 0), 4102444800},
		{"millisecond", time.UnixMilli(4102444800250), 4102444800.25},
		{"never early", time.Unix(4102444800, 250_000_001), 4102444800.251},
		{"another zone", time.Date(2099, 12, 31, 23, 0, 0, 0, time.FixedZone("", -3600)), 4102444800},
		{"past", now.Add(-time.Hour), 0},
		{"before 1970", time.Unix(-1, 0), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := f.with(t)
			f.seed()
			_, err := f.PushAt(context.Background(), client.Message{ID: "a", Topic: "t", Body: "new"}, tt.due, client.ReadyMaxLifetime(time.Hour))
			check(t, err)
			want := state{Pool: []string{"a"}, Buckets: buckets{"a": "t new"}}
			if tt.want == 0 {
				want = state{Ready: queues{"t": {"a"}}, Buckets: want.Buckets}
			} else if score := f.due("a"); score != tt.want {
				t.Errorf("score %f, want %f", score, tt.want)
			}
			f.expect(want)
			if kept := f.expires("a") - max(f.clock(), float64(tt.due.Unix())); math.Abs(kept-3600) > 10 {
				t.Errorf("kept for %f s once ready, want an hour", kept)
			}
		})
	}
}

func TestPushKeepsReadyJobsForSevenDays(t *testing.T) {
	f := start(t)
	from := f.clock()
	f.push("a", "t")
	week := (7 * 24 * time.Hour).Seconds()
	expectSpan(t, "expiry", f.expires("a"), from+week, f.clock()+week)
}

func TestPushMakesID(t *testing.T) {
	f := start(t)
	form := regexp.MustCompile(`^[0-9a-f]{32}$`)
	made := buckets{}
	for range 100 {
		id, err := f.Push(t.Context(), client.Message{Topic: "t", Body: "new"}, time.Hour)
		if err != nil || !form.MatchString(id) {
			t.Fatalf("Push = %q, %v", id, err)
		}
		made[id] = "t new"
	}
	if got := f.state().Buckets; len(made) != 100 || len(got) != 100 {
		t.Errorf("%d different IDs, %d jobs, want 100", len(made), len(got))
	}
}

// A ready job that is pushed again comes once, with what was pushed last, and not before its new time.
func TestPushPostponesReadyJob(t *testing.T) {
	f := start(t)
	f.serve()
	f.push("a", "t")
	from := f.clock()
	_, err := f.Push(t.Context(), client.Message{ID: "a", Topic: "t", Body: "second"}, 300*time.Millisecond)
	check(t, err)
	if m, err := f.Pop(t.Context(), "t"); !errors.Is(err, client.ErrEmpty) {
		t.Fatalf("Pop = %v, %v while the job is postponed", m, err)
	}
	m, err := f.BPop(t.Context(), hangBound, "t")
	if err != nil || m != (client.Message{ID: "a", Topic: "t", Body: "second"}) {
		t.Fatalf("BPop = %v, %v", m, err)
	}
	if waited := f.clock() - from; waited < 0.3 {
		t.Errorf("came after %f s", waited)
	}
	f.expect(state{})
}

// The same, where the queue is too long for the ID to be taken out of it.
func TestPushPostponesReadyJobInLongQueue(t *testing.T) {
	f := start(t)
	f.seed(ready("a", "t")...)
	f.fill("t", 10_000)
	_, err := f.Push(t.Context(), client.Message{ID: "a", Topic: "t", Body: "second"}, time.Hour)
	check(t, err)
	m, err := f.Pop(t.Context(), "t")
	if err != nil || m.ID == "a" {
		t.Fatalf("Pop = %v, %v, want the job behind the postponed one", m, err)
	}
	if job, err := f.Get(t.Context(), "a"); err != nil || job.State != client.Waiting || job.Body != "second" {
		t.Errorf("Get = %+v, %v", job, err)
	}
	if n := f.Counters().Stale; n != 0 {
		t.Errorf("%d counted as expired: a postponed job is not", n)
	}
}

// fill adds n ready jobs, f1, f2, … to the topic.
func (f *fixture) fill(topic string, n int) {
	f.t.Helper()
	f.do("EVAL", `for i = 1, ARGV[2] do
		redis.call('HSET', 'delayer:job_bucket:f' .. i, 'topic', ARGV[1], 'body', 'body')
		redis.call('LPUSH', KEYS[1], 'f' .. i) end`, 1, "delayer:ready_queue:"+topic, topic, n)
}

// A push that is cancelled while it is under way gets its answer; one that waits for its turn
// returns at once, and is not stored.
func TestCancelledPush(t *testing.T) {
	f := start(t)
	c := f.patient()
	check(t, c.WarmUp(t.Context()))
	f.redis.Hang()
	ctx, cancel := context.WithCancel(t.Context())
	var underWay []<-chan result
	push := func(id string) <-chan result {
		return background(func() (client.Message, error) {
			_, err := c.Push(ctx, client.Message{ID: id, Topic: "t", Body: "b"}, time.Hour)
			return client.Message{ID: id}, err
		})
	}
	for n := range client.MaxPushCalls {
		underWay = append(underWay, push(fmt.Sprint(n)))
		await(t, n+1, client.MaxPushCalls, c.Pushes)
	}
	waits := push("waits")
	await(t, client.MaxPushCalls+1, client.MaxPushCalls, c.Pushes)
	cancel()
	if r := waitFor(t, waits); !errors.Is(r.err, context.Canceled) {
		t.Errorf("the one that waits: %v", r.err)
	}
	f.redis.Resume()
	for n, pushed := range underWay {
		expectJob(t, waitFor(t, pushed), fmt.Sprint(n))
	}
	if got := len(f.state().Pool); got != client.MaxPushCalls {
		t.Errorf("%d jobs are stored", got)
	}
}

// A body may be empty if the push says so; it comes as it was pushed.
func TestEmptyBody(t *testing.T) {
	f := start(t)
	m := client.Message{ID: "a", Topic: "t"}
	if _, err := f.Push(t.Context(), m, 0); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("got %v, want ErrInvalid", err)
	}
	_, err := f.Push(t.Context(), m, 0, client.EmptyBody())
	check(t, err)
	if got, err := f.Pop(t.Context(), "t"); err != nil || got != m {
		t.Errorf("got %+v, %v", got, err)
	}
}
