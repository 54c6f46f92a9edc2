package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// TestPassOnce checks that Pass moves all due jobs and drops old dead letters each time; Run drops them once a minute.
// Pass writes no heartbeat.
func TestPassOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const jobs, topics = 2*firstBatch + 1, 3
	w.many(jobs, topics)
	check(t, w.server.Pass(t.Context()))
	w.expectManyMoved(jobs, topics)
	if n := w.Do("EXISTS", prefix+"servers").(int64); n != 0 {
		t.Errorf("servers: %v", w.servers())
	}

	w.Do("FLUSHALL")
	w.push("far", "t", "5000000000")
	for range 2 {
		w.bury("t", 10000*time.Hour, "old")
		check(t, w.server.Pass(t.Context()))
		w.Expect(redistest.State{Pool: []string{"far"}, Buckets: buckets{"far": "t body"}})
	}
}

func TestPassOnceFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.many(1, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.server.Pass(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that is done: %v", err)
	}
	if got := w.waiting(); len(got) != 1 {
		t.Errorf("waiting %q", got)
	}
	w.Do("SET", prefix+"job_pool", "broken")
	if err := w.server.Pass(t.Context()); err == nil {
		t.Error("no error though the pool is broken")
	}
}
