package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

type (
	queues  = map[string][]string
	buckets = map[string]string
)

// TestPass checks that one pass moves all due jobs.
func TestPass(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		jobs, topics int
	}{
		{jobs: 0, topics: 1},
		{jobs: 1, topics: 1},
		{jobs: firstBatch, topics: 1}, // exactly a batch
		{jobs: firstBatch + 1, topics: 1},
		{jobs: 3 * firstBatch, topics: 7},
		{jobs: 8001, topics: 1},
		{jobs: 10000, topics: 1000},
		{jobs: 100000, topics: 8},
	} {
		if testing.Short() && c.jobs > 20000 {
			continue
		}
		t.Run(fmt.Sprintf("%d jobs in %d topics", c.jobs, c.topics), func(t *testing.T) {
			w.TB = t
			w.many(c.jobs, c.topics)
			w.server = New(w.pool(), Options{})
			w.expectPass(c.jobs, 0)
			w.expectManyMoved(c.jobs, c.topics)
			w.expectPass(0, 0)
		})
	}
}

// A pass ends with the batch after which nothing is due.
func TestPassReadsUntilShort(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct{ jobs, looks int }{{0, 1}, {1, 1}, {99, 1}, {100, 1}, {101, 2}, {200, 2}, {201, 3}} {
		w.many(c.jobs, 1)
		w.mover().batch = batchSize{budget: 1, current: minBatch} // the batch size stays small
		looks := 0
		w.onLook(func(n int) { looks = n })
		w.expectPass(c.jobs, 0)
		if looks != c.looks {
			t.Errorf("%d jobs by %d: %d look-ups, want %d", c.jobs, minBatch, looks, c.looks)
		}
	}
}

// IDs and topics may have any bytes.
func TestPassAnyBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	texts := []string{"", "plain", "a b", " ", "a,b", "a:b", ":", "a\nb", "a\r\nb", "{a}b", "[a]", "Größe 注文", "\x00\xff\xfe", "*", "%s%d", `"'\`, "ready_queue:", strings.Repeat("long", 1000)}
	want := redistest.State{Ready: queues{}, Buckets: buckets{}}
	for n, text := range texts {
		w.push("id "+text, text, n)
		w.push("other "+text, text, 100)
		want.Ready[text] = []string{"id " + text, "other " + text}
		want.Buckets["id "+text], want.Buckets["other "+text] = text+" body", text+" body"
	}
	w.expectPass(2*len(texts), 0)
	w.Expect(want)
}

func TestPassScores(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := time.Now().Unix()
	for id, score := range map[string]any{
		"1 always": "-inf", "2 negative": -5, "3 zero": 0, "4 one": 1, "5 fraction": "1234567890.25", "6 fraction": "1234567890.251",
		"7 integer": now - 1, "8 exponent": "1.2e+10", "9 far": now + 86400, "a never": "+inf",
	} {
		w.push(id, "t", score)
	}
	r := w.pass()
	if r.Moved != 7 || r.Next.IsZero() {
		t.Errorf("%+v", r)
	}
	w.expectPass(0, 0)
	w.expectReady("t", "1 always", "2 negative", "3 zero", "4 one", "5 fraction", "6 fraction", "7 integer")
	w.expectWaiting("9 far", "8 exponent", "a never")
}

// TestPassBetween changes jobs between a pass's read of due jobs and the moves.
func TestPassBetween(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		name    string
		orphan  bool // adds an orphan, which is due
		between func()
		moved   int
		want    redistest.State
	}{
		{
			name:    "postponed",
			between: func() { w.Do("ZADD", prefix+"job_pool", "5000000000.5", "x") },
			moved:   2,
			want:    redistest.State{Pool: []string{"x"}, Ready: queues{"t": {"a", "b"}}, Buckets: buckets{"a": "t body", "x": "t body", "b": "t body"}},
		},
		{
			name: "moved by another server",
			between: func() {
				w.Do("ZREM", prefix+"job_pool", "a", "x")
				w.Do("LPUSH", prefix+"ready_queue:t", "a", "x")
			},
			moved: 1,
			want:  redistest.State{Ready: queues{"t": {"a", "x", "b"}}, Buckets: buckets{"a": "t body", "x": "t body", "b": "t body"}},
		},
		{
			// The entry is in the old queue until a take finds it and passes it on.
			name:    "pushed anew without a delay and with another topic by an original client",
			between: func() { w.push("x", "u", 1) },
			moved:   3,
			want:    redistest.State{Ready: queues{"t": {"a", "x", "b"}}, Buckets: buckets{"a": "t body", "x": "u body", "b": "t body"}},
		},
		{
			name:    "orphan pushed anew",
			orphan:  true,
			between: func() { w.push("orphan", "t", "5000000000") },
			moved:   3,
			want:    redistest.State{Pool: []string{"orphan"}, Ready: queues{"t": {"a", "x", "b"}}, Buckets: buckets{"orphan": "t body", "a": "t body", "x": "t body", "b": "t body"}},
		},
		{
			name:    "all gone",
			between: func() { w.Do("FLUSHALL") },
			want:    redistest.State{},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.TB = t
			w.Do("FLUSHALL")
			w.push("a", "t", 1)
			w.push("x", "t", 2)
			w.push("b", "t", 3)
			if c.orphan {
				w.Do("ZADD", prefix+"job_pool", 4, "orphan")
			}
			w.onLook(func(n int) {
				if n == 1 {
					c.between()
				}
			})
			w.expectPass(c.moved, 0)
			w.Expect(c.want)
			w.log.expectErrors(t)
		})
	}
}

func TestReadyLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.push("id1", "close_order", 1)
	w.push("id3", "other", 2)
	w.push("id2", "close_order", 3)
	w.expectPass(3, 0)
	info, _ := w.log.lines()
	want := []string{"Job is ready, Topic: close_order, IDs: [id1,id2]", "Job is ready, Topic: other, IDs: [id3]"}
	if !slices.Equal(info, want) {
		t.Errorf("log:\n got %q\nwant %q", info, want)
	}
	w.expectPass(0, 0)
	if again, _ := w.log.lines(); len(again) != len(info) {
		t.Errorf("a pass that moved nothing logged %q", again[len(info):])
	}
}

// Once Redis's clock is known, a few due jobs are moved by the read itself.
func TestPassMovesFewAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.expectPass(0, 0)
	for n := range atOnce {
		w.push(fmt.Sprint("a", n), fmt.Sprint("t", n%3), 1)
	}
	ready := int64(-1)
	w.server.test.beforeMove = func() { ready = w.Do("LLEN", prefix+"ready_queue:t0").(int64) }
	w.expectPass(atOnce, 0)
	if want := int64((atOnce + 2) / 3); ready != want {
		t.Errorf("%d jobs of a topic were ready, want %d", ready, want)
	}
	w.log.awaitMoved(t, atOnce)
}
