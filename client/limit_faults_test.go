package client_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/server"
)

// Callers that wait for a rate are woken when the limit is removed or raised.
func TestRateIsRemoved(t *testing.T) {
	for name, l := range map[string]client.Limit{"away": {}, "raised": {Rate: 1000}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, alone, undivided)
			check(t, f.SetLimit(t.Context(), "t", client.Limit{Rate: 1.0 / 3600}))
			for i := range 3 {
				check(t, errOf(f.Push(t.Context(), message(fmt.Sprint(i)), 0)))
			}
			c := f.open()
			d, err := c.Reserve(t.Context(), 0, time.Hour, "t")
			check(t, err)
			check(t, d.Ack(t.Context()))
			ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
			defer cancel()
			got := make(chan error, 1)
			go func() { got <- errOf(c.Reserve(ctx, 0, time.Hour, "t")) }()
			time.Sleep(200 * time.Millisecond)
			began := time.Now()
			check(t, f.SetLimit(t.Context(), "t", l))
			err = <-got
			if took := time.Since(began); err != nil || took > 16*time.Second {
				t.Errorf("who waited has a job after %v, %v", took, err)
			}
		})
	}
}

// A limit that throttles a Reserve does not affect a BPop of the same Client.
func TestBPopDuringAThrottledReserve(t *testing.T) {
	f := start(t, alone, undivided)
	check(t, f.SetLimit(t.Context(), "t", client.Limit{Concurrency: 1}))
	for i := range 3 {
		check(t, errOf(f.Push(t.Context(), message(fmt.Sprint(i)), 0)))
	}
	c := f.open()
	_, err := c.Reserve(t.Context(), 0, time.Hour, "t")
	check(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	go c.Reserve(ctx, 0, time.Hour, "t")
	time.Sleep(200 * time.Millisecond)
	began := time.Now()
	if _, err := c.Pop(ctx, "t"); err != nil {
		t.Errorf("Pop: %v", err)
	}
	if _, err := f.Pop(ctx, "t"); err != nil {
		t.Errorf("Pop of another Client: %v", err)
	}
	check(t, errOf(f.Push(ctx, message("more"), 0)))
	if _, err := c.BPop(ctx, 5*time.Second, "t"); err != nil || time.Since(began) > time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

// A spec that matches no date is refused.
func TestScheduleWithoutOccurrences(t *testing.T) {
	f := start(t)
	for _, spec := range []string{"0 0 30 2 *", "0 0 31 2,4 *", "0 0 29 2 1#1", "0 0 * 2 1#5", "0 0 31 4 ?"} {
		next, err := f.Schedule(t.Context(), client.Schedule{Name: "n", Cron: spec, Topic: "t", Body: "b"})
		if err == nil && next.Year() < 2026 {
			t.Errorf("%s is next at %v", spec, next)
		}
	}
}

// A caller of two topics gets the jobs of one if the limit of the other cannot be read.
func TestBrokenLimitOfOneTopic(t *testing.T) {
	f := start(t, alone, undivided)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	check(t, f.SetLimit(ctx, "a", client.Limit{Concurrency: 1}))
	f.Do("HSET", f.Prefix+"limits", "a", "broken")
	for _, topic := range []string{"a", "b"} {
		check(t, errOf(f.Push(ctx, client.Message{Topic: topic, Body: "b"}, 0)))
	}
	d, err := f.Reserve(ctx, 2*time.Second, time.Minute, "a", "b")
	if err != nil || d.Topic != "b" {
		t.Errorf("%v, %v", d, err)
	}
}

// While previous_partitions is set, jobs of a limited topic are delivered as usual, even before a migration.
func TestLimitedTopicBeforeTheMigration(t *testing.T) {
	f := start(t, alone, undivided, oldLayout)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	check(t, f.SetLimit(ctx, "limited", client.Limit{Concurrency: 16}))
	for _, topic := range []string{"limited", "free"} {
		for i := range 4 {
			check(t, errOf(f.Push(ctx, client.Message{ID: fmt.Sprint(topic, i), Topic: topic, Body: "b"}, 0)))
		}
	}
	o := f.serverOptions(20 * time.Millisecond)
	o.Partitions, o.PreviousPartitions = 4, 1
	s := server.New(f.Pool(), o)
	redistest.Background(t, s.Run)
	time.Sleep(time.Second)
	c := f.open(client.WithPartitions(4), client.WithPreviousPartitions(1))
	for _, topic := range []string{"free", "limited"} {
		if _, err := c.Reserve(ctx, 6*time.Second, time.Minute, topic); err != nil {
			t.Errorf("with the new configuration, of %s: %v", topic, err)
		}
		if _, err := f.Reserve(ctx, 6*time.Second, time.Minute, topic); err != nil {
			t.Errorf("with that of before, of %s: %v", topic, err)
		}
	}
}
