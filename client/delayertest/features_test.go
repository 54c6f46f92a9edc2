package delayertest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/delayertest"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
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
			if _, err := d.Client().Fetch(t.Context(), clienttest.Ready(topic, 1, time.Minute)); !errors.Is(err, client.ErrEmpty) {
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
				_, err := d.Client().Reserve(t.Context(), time.Hour, topic)
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
	push(t, d, "a", 0, client.IfExists(client.Once(time.Hour)))
	check(t, reserve(t, d, time.Minute).Ack(t.Context()))
	for _, want := range []error{client.ErrExists, nil} {
		if _, err := d.Client().Push(t.Context(), client.Message{ID: "a", Topic: topic, Body: "b"}, 0, client.IfExists(client.Once(time.Hour))); !errors.Is(err, want) {
			t.Errorf("pushed again: %v, want %v", err, want)
		}
		d.Forward(t, time.Hour)
	}
}
