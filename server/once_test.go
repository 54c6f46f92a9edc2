package server

import (
	"context"
	"errors"
	"testing"

	"github.com/mix-basic/delayer/internal/redistest"
)

// letter writes a dead letter that was buried so long after 1970, in ms.
func (w *world) letter(id, topic string, died int) {
	w.TB.Helper()
	w.Do("HSET", prefix+"dead_letter:"+id, "topic", topic, "body", "body", "died", died)
	w.Do("ZADD", prefix+"dead_letters:"+topic, died, id)
	w.Do("ZADD", prefix+"dead_topics", "NX", died, topic)
}

// TestPassOnce has Pass move all that is due, and drop old dead letters each time,
// which Run does once a minute.
func TestPassOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const jobs, topics = 2*firstBatch + 1, 3
	w.many(jobs, topics)
	if err := w.server.Pass(t.Context()); err != nil {
		t.Error(err)
	}
	w.expectManyMoved(jobs, topics)

	w.Do("FLUSHALL")
	w.push("far", "t", "5000000000")
	for range 2 {
		w.letter("old", "t", 1000)
		if err := w.server.Pass(t.Context()); err != nil {
			t.Error(err)
		}
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
