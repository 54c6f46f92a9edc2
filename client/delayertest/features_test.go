package delayertest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/delayertest"
)

// TestForwardLimit: limits admit more jobs as time passes and when leases end.
func TestForwardLimit(t *testing.T) {
	for name, l := range map[string]client.Limit{
		"one a minute":                  {Rate: 1. / 60},
		"one at a time":                 {Concurrency: 1},
		"both":                          {Rate: 1. / 60, Concurrency: 1},
		"one a minute, if none was due": {Rate: 1. / 60, Burst: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := delayertest.New(t)
			for _, id := range []string{"a", "b", "c"} {
				push(t, d, id, 0)
			}
			check(t, d.Client().SetLimit(t.Context(), topic, l))
			if job := reserve(t, d, time.Minute); job.ID != "a" {
				t.Errorf("reserved %q", job.ID)
			}
			d.Forward(t, 59*time.Second)
			if _, err := d.Client().ReserveBatch(t.Context(), topic, 1, time.Minute); !errors.Is(err, client.ErrEmpty) {
				t.Errorf("a second early: %v", err)
			}
			d.Forward(t, time.Second+time.Millisecond)
			if job := reserve(t, d, time.Minute); job.ID != "b" {
				t.Errorf("reserved %q", job.ID)
			}
		})
	}
}

// TestForwardWakesThrottled: a throttled consumer continues when its limit allows, not by the host's clock.
func TestForwardWakesThrottled(t *testing.T) {
	for name, l := range map[string]client.Limit{"one an hour": {Rate: 1. / 3600}, "one at a time": {Concurrency: 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := delayertest.New(t)
			push(t, d, "a", 0)
			push(t, d, "b", 0)
			check(t, d.Client().SetLimit(t.Context(), topic, l))
			reserve(t, d, time.Hour)
			got := make(chan error, 1)
			go func() {
				_, err := d.Client().Reserve(t.Context(), patience, time.Hour, topic)
				got <- err
			}()
			d.Forward(t, time.Hour+time.Millisecond)
			check(t, <-got)
		})
	}
}

// TestForwardOnce: a push counts again after its window.
func TestForwardOnce(t *testing.T) {
	t.Parallel()
	d := delayertest.New(t)
	push(t, d, "a", 0, client.Once(time.Hour))
	check(t, reserve(t, d, time.Minute).Ack(t.Context()))
	for _, want := range []error{client.ErrExists, nil} {
		if _, err := d.Client().Push(t.Context(), client.Message{ID: "a", Topic: topic, Body: "b"}, 0, client.Once(time.Hour)); !errors.Is(err, want) {
			t.Errorf("pushed again: %v, want %v", err, want)
		}
		d.Forward(t, time.Hour)
	}
}

// TestForwardDebounce: a burst of pushes is one job, due at the end of the longest time.
func TestForwardDebounce(t *testing.T) {
	t.Parallel()
	d := delayertest.New(t)
	for range 3 {
		push(t, d, "a", time.Minute, client.Debounce(2*time.Minute))
		d.Forward(t, 50*time.Second)
	}
	expect(t, d, "a ready 0")
	d = delayertest.New(t)
	push(t, d, "a", time.Minute, client.Debounce(2*time.Minute))
	d.Forward(t, 50*time.Second)
	push(t, d, "a", time.Minute, client.Debounce(2*time.Minute))
	expect(t, d, "a waiting 0 in 1m0s")
	d.Forward(t, 50*time.Second)
	push(t, d, "a", time.Minute, client.Debounce(2*time.Minute))
	expect(t, d, "a waiting 0 in 20s")
}

// TestForwardFollow: the newest push is delivered when the job is done, by an ack or because its lease ended.
func TestForwardFollow(t *testing.T) {
	t.Parallel()
	d := delayertest.New(t)
	push(t, d, "a", 0)
	job := reserve(t, d, time.Minute)
	push(t, d, "a", 0, client.Follow)
	d.Forward(t, 30*time.Second)
	expect(t, d, "a reserved 1")
	check(t, job.Ack(t.Context()))
	expect(t, d, "a ready 0")
	job = reserve(t, d, time.Minute)
	push(t, d, "a", 0, client.Follow)
	check(t, job.Ack(t.Context())) // at the time of the push
	expect(t, d, "a ready 0")
	reserve(t, d, time.Minute)
	push(t, d, "a", time.Hour, client.Follow)
	d.Forward(t, time.Minute)
	check(t, reserve(t, d, time.Minute).Ack(t.Context()))
	expect(t, d, "a waiting 0 in 59m0s")
}

// TestForwardBackOff: a back-off ends on time.
func TestForwardBackOff(t *testing.T) {
	t.Parallel()
	d := delayertest.New(t)
	push(t, d, "a", 0)
	check(t, d.Client().BackOff(t.Context(), topic, time.Minute))
	d.Forward(t, 59*time.Second)
	if _, err := d.Client().ReserveBatch(t.Context(), topic, 1, time.Minute); !errors.Is(err, client.ErrEmpty) {
		t.Errorf("a second early: %v", err)
	}
	d.Forward(t, time.Second)
	reserve(t, d, time.Minute)
}
