package client_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/server"
)

// A limit that throttles a Reserve does not affect a Pop or BPop of the same Client.
func TestBPopDuringAThrottledReserve(t *testing.T) {
	f := start(t, undivided)
	ctx := t.Context()
	check(t, f.SetLimit(ctx, "t", client.Limit{Concurrency: 1}))
	for i := range 3 {
		check(t, errOf(f.Push(ctx, message(fmt.Sprint(i)), 0)))
	}
	c := f.open()
	check(t, errOf(c.Reserve(ctx, 0, time.Hour, "t")))
	go c.Reserve(ctx, 0, time.Hour, "t")
	until(t, "the Reserve is throttled", func() bool { return f.Do("ZCARD", f.Prefix+"held_back:t") == int64(1) })
	check(t, errOf(c.Pop(ctx, "t")))
	check(t, errOf(f.Pop(ctx, "t")))
	check(t, errOf(f.Push(ctx, message("more"), 0)))
	check(t, errOf(c.BPop(ctx, time.Millisecond, "t")))
}

// While previous_partitions is set, jobs of a limited topic are delivered as usual, even before a migration.
func TestLimitedTopicBeforeTheMigration(t *testing.T) {
	t.Parallel()
	f := start(t, undivided, oldLayout)
	ctx := t.Context()
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
		if _, err := c.Reserve(ctx, hangBound, time.Minute, topic); err != nil {
			t.Errorf("with the new configuration, of %s: %v", topic, err)
		}
		if _, err := f.Reserve(ctx, hangBound, time.Minute, topic); err != nil {
			t.Errorf("with that of before, of %s: %v", topic, err)
		}
	}
}
