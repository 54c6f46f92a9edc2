package delayertest_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/delayertest"
	"github.com/mix-basic/delayer/client/worker"
)

// TestJobs lists jobs of all states, and only the topic's.
func TestJobs(t *testing.T) {
	t.Parallel()
	d := delayertest.New(t)
	for _, id := range []string{"dead", "later dead"} {
		push(t, d, id, 0)
		check(t, reserve(t, d, 0).Bury(t.Context(), errors.New("torn")))
		d.Forward(t, time.Second)
	}
	push(t, d, "reserved", 0)
	reserve(t, d, 90*time.Second)
	push(t, d, "second", time.Millisecond)
	push(t, d, "third", 2*time.Millisecond)
	d.Forward(t, time.Second)
	push(t, d, "last", 2*time.Minute)
	push(t, d, "next", time.Minute)
	_, err := d.Client().Push(t.Context(), client.Message{Topic: "other", Body: "b"}, time.Minute)
	check(t, err)
	expect(t, d,
		"second ready 0", "third ready 0",
		"next waiting 0 in 1m0s", "reserved reserved 1", "last waiting 0 in 2m0s",
		"later dead dead 1", "dead dead 1")

	for _, test := range []struct {
		states []client.State
		want   string
	}{
		{[]client.State{client.StateReady}, "second third"},
		{[]client.State{client.StateWaiting}, "next last"},
		{[]client.State{client.StateReserved}, "reserved"},
		{[]client.State{client.StateDead}, "later dead dead"},
		{[]client.State{client.StateWaiting, client.StateReady}, "second third next last"},
	} {
		var ids []string
		for _, job := range d.Jobs(t, topic, test.states...) {
			ids = append(ids, job.ID)
		}
		if got := strings.Join(ids, " "); got != test.want {
			t.Errorf("%v: %q, want %q", test.states, got, test.want)
		}
	}
	if job := d.Jobs(t, topic, client.StateDead)[1]; job.Reason != "torn" || job.Body != "body" {
		t.Errorf("dead letter %+v", job)
	}
}

// TestBadUse: mistakes fail the test with a helpful message.
func TestBadUse(t *testing.T) {
	t.Parallel()
	d := delayertest.New(t)
	done := newWorker(d, func(context.Context, *worker.Job) error { return nil })
	empty := delayertest.New(t)
	push(t, d, "a", time.Hour)
	push(t, d, "b", time.Hour)
	push(t, d, "c", time.Minute)
	for _, test := range []struct {
		name string
		use  func(t testing.TB)
		want []string // contained in the message
	}{
		{"Forward back", func(t testing.TB) { d.Forward(t, -time.Second) }, []string{"Forward by -1s", "want 0 or more"}},
		{"Due in the past", func(t testing.TB) { d.Due(t, topic, -time.Second) }, []string{"Due in -1s", "want 0"}},
		{"Due at another time", func(t testing.TB) { d.Due(t, topic, time.Second) },
			[]string{"0 jobs of topic \"close_order\" fall due in 1s", `"c" falls due in 1m`, `"a" falls due in 1h`}},
		{"Due by two", func(t testing.TB) { d.Due(t, topic, time.Hour) }, []string{"2 jobs of topic \"close_order\" fall due in 1h, want one"}},
		{"Due now", func(t testing.TB) { d.Due(t, topic, 0) }, []string{"0 jobs of topic \"close_order\" are ready"}},
		{"Due of a topic without jobs", func(t testing.TB) { d.Due(t, "clos_order", time.Hour) },
			[]string{"the topic has no jobs", `topics that were pushed to: "close_order"`}},
		{"Due of nothing", func(t testing.TB) { empty.Due(t, topic, time.Hour) }, []string{"nothing was pushed"}},
		{"Jobs of the empty topic", func(t testing.TB) { d.Jobs(t, "") }, []string{"invalid topic"}},
		{"Handle of what is not ready", func(t testing.TB) { d.Handle(t, done, topic) }, []string{"no job is ready", `"c" falls due in 1m`}},
		{"Handle of a topic without a handler", func(t testing.TB) { d.Handle(t, done, "other") }, []string{`"other" has no handler`}},
		{"Handle by a wrong worker", func(t testing.TB) { d.Handle(t, worker.New(d.Client(), worker.NewMux(), worker.Options{}), topic) },
			[]string{"it has no handlers"}},
	} {
		message := failure(t, test.use)
		for _, want := range test.want {
			if !strings.Contains(message, want) {
				t.Errorf("%s: %q, want %q in it", test.name, message, want)
			}
		}
	}
	expect(t, d, "c waiting 0 in 1m0s", "a waiting 0 in 1h0m0s", "b waiting 0 in 1h0m0s")
}

// TestHandleTooSlow: the lease ends while the handler runs.
func TestHandleTooSlow(t *testing.T) {
	t.Parallel()
	d := delayertest.New(t)
	push(t, d, "a", 0, client.JobOptions{Lease: time.Minute})
	w := newWorker(d, func(context.Context, *worker.Job) error {
		d.Forward(t, time.Minute)
		return nil
	})
	if err := d.Handle(t, w, topic); !errors.Is(err, client.ErrLeaseLost) {
		t.Errorf("Handle: %v", err)
	}
	expect(t, d, "a ready 1")
}

// TestHandleExhausted: a job whose attempts are used up becomes a dead letter instead of being handled.
func TestHandleExhausted(t *testing.T) {
	t.Parallel()
	d := delayertest.New(t)
	w := newWorker(d, func(context.Context, *worker.Job) error {
		t.Error("the handler is called")
		return nil
	})
	push(t, d, "a", 0, client.JobOptions{MaxAttempts: 1})
	reserve(t, d, time.Minute)
	d.Forward(t, time.Minute)
	message := failure(t, func(t testing.TB) { d.Handle(t, w, topic) })
	if want := `"a" is a dead letter: the only attempt used up`; !strings.Contains(message, want) {
		t.Errorf("%q, want %q in it", message, want)
	}
}

// A dead letter keeps its producer's options, even if there is a new job with its ID.
func TestDeadJobsTellTheirOptions(t *testing.T) {
	t.Parallel()
	d := delayertest.New(t)
	push(t, d, "a", 0, client.JobOptions{MaxAttempts: 3, Lease: time.Minute})
	job := reserve(t, d, 0)
	check(t, job.Bury(t.Context(), errors.New("no such order")))
	push(t, d, "a", time.Hour, client.JobOptions{MaxAttempts: 7})
	push(t, d, "b", 0)
	check(t, reserve(t, d, 0).Bury(t.Context(), errors.New("broken")))
	want := map[string]client.JobInfo{
		"a": {Message: client.Message{ID: "a", Topic: topic, Body: "body"}, State: client.StateDead, TTL: -1, Attempts: 1, Options: client.JobOptions{MaxAttempts: 3, Lease: time.Minute}, Error: "no such order", Reason: "no such order"},
		"b": {Message: client.Message{ID: "b", Topic: topic, Body: "body"}, State: client.StateDead, TTL: -1, Attempts: 1, Error: "broken", Reason: "broken"},
	}
	letters := d.Jobs(t, topic, client.StateDead)
	for _, got := range letters {
		got.Due = time.Time{}
		if !reflect.DeepEqual(got, want[got.ID]) {
			t.Errorf("got %+v, want %+v", got, want[got.ID])
		}
	}
	if len(letters) != len(want) {
		t.Errorf("%d dead letters, want %d", len(letters), len(want))
	}
}
