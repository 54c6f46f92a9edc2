package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/redistest"
	"github.com/mix-basic/delayer/internal/store"
)

// TestOrphans has due IDs without a usable bucket among live jobs: one pass
// moves the live ones and drops the others, and says so once.
func TestOrphans(t *testing.T) {
	t.Parallel()
	for _, batch := range []float64{minBatch, maxBatch} {
		w := newWorld(t)
		w.server.batch = batchSize{budget: 1, current: batch}
		var orphans, live []string
		for n := range 110 {
			if n%11 == 10 {
				live = append(live, fmt.Sprint("live", n))
				w.push(fmt.Sprint("live", n), "t", n)
				continue
			}
			id := fmt.Sprint("orphan", n)
			orphans = append(orphans, id)
			w.do("ZADD", prefix+"job_pool", n, id)
			switch n % 3 {
			case 1:
				w.do("HSET", prefix+"job_bucket:"+id, "body", "body of a job without a topic")
			case 2:
				w.do("SET", prefix+"job_bucket:"+id, "no hash")
			}
		}
		w.do("ZADD", prefix+"job_pool", "5000000000", "not due yet")
		keys := w.do("DBSIZE").(int64)

		w.expectPass(10, 100)
		if got := w.queue("t"); !slices.Equal(got, live) {
			t.Errorf("ready %q, want %q", got, live)
		}
		if got := w.waiting(); !slices.Equal(got, []string{"not due yet"}) {
			t.Errorf("waiting %q", got)
		}
		if n := w.do("DBSIZE").(int64); n != keys+1 {
			t.Errorf("%d keys, were %d without the queue", n, keys)
		}
		_, errors, _ := w.log.lines()
		var said []string
		for _, line := range errors {
			if !strings.HasPrefix(line, "Job bucket has expired or is incomplete, job dropped, IDs: [") {
				t.Errorf("logged %q", line)
			}
			said = append(said, idsOf(line)...)
		}
		if !slices.Equal(said, orphans) {
			t.Errorf("logged as dropped: %q, want %q", said, orphans)
		}

		w.expectPass(0, 0)
		if _, again, _ := w.log.lines(); len(again) != len(errors) {
			t.Errorf("logged again: %q", again[len(errors):])
		}
	}
}

const (
	brokenLine = "Jobs of a topic can't be moved, Topic: u: WRONGTYPE ready queue delayer:ready_queue:u is a string, not a list"
	healedLine = "Jobs of a topic can't be moved, Topic: u: over after "
)

// TestBrokenQueue has the ready queue of topic u be no list: its jobs stay, the
// other topics' are moved, the log names topic and key once, and tells when
// all is well again. It does so however many jobs are stuck: fewer than a
// batch, more, and so many that not every pass looks at them.
func TestBrokenQueue(t *testing.T) {
	t.Parallel()
	for _, stuck := range []int{1, minBatch - 1, minBatch, 3 * minBatch, manyBlocked, manyBlocked + 1, 2500} {
		t.Run(fmt.Sprint(stuck), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.server.batch = batchSize{budget: 1, current: minBatch} // and stays so small
			// Jobs of u and t in turn, then those of v: some are due between those
			// of u, some behind all of them.
			w.many(2*stuck, 2)
			w.do("EVAL", `for n = 0, ARGV[1] - 1 do redis.call('HSET', string.format('delayer:job_bucket:job%06d', n), 'topic', n % 2 == 0 and 'u' or 't') end`, 0, 2*stuck)
			for n := range 2 * minBatch {
				w.push(fmt.Sprintf("v%03d", n), "v", 1e6+float64(n))
			}
			var u, others []string
			for n, id := range manyIDs(2 * stuck) {
				if n%2 == 0 {
					u = append(u, id)
				} else {
					others = append(others, id)
				}
			}
			w.do("SET", prefix+"ready_queue:u", "no list")

			w.expectPass(stuck+2*minBatch, 0)
			if got := w.waiting(); !slices.Equal(got, u) {
				t.Errorf("%d jobs wait: %.200q, want those of u: %.200q", len(got), got, u)
			}
			if got := w.queue("t"); !slices.Equal(got, others) {
				t.Errorf("ready queue of t: %.200q, want %.200q", got, others)
			}
			w.log.expectErrors(t, brokenLine)

			// More jobs come, behind the stuck ones, and are moved by passes that
			// skip those, and by passes that don't.
			for n := range 5 {
				w.push(fmt.Sprint("late", n), "w", 2e6+float64(n))
				again := time.Now().Add(-1)
				if n%2 == 1 {
					again = time.Now().Add(hangs)
				}
				w.server.blocked.lookAgain = again
				looks := 0
				w.onLook(func(n int) { looks = n })
				w.expectPass(1, 0)
				if skips := n%2 == 1 && stuck > manyBlocked; skips && looks != 1 || !skips && looks < stuck/minBatch {
					t.Errorf("%d look-ups for one job behind %d stuck ones; skips: %v", looks, stuck, skips)
				}
			}
			if got, want := w.queue("w"), []string{"late0", "late1", "late2", "late3", "late4"}; !slices.Equal(got, want) {
				t.Errorf("ready queue of w: %q, want %q", got, want)
			}
			w.log.expectErrors(t, brokenLine)

			w.do("DEL", prefix+"ready_queue:u")
			w.server.blocked.lookAgain = time.Now().Add(-1)
			w.expectPass(stuck, 0)
			if got := w.queue("u"); !slices.Equal(got, u) {
				t.Errorf("ready queue of u: %.200q, want %.200q", got, u)
			}
			if _, errors, _ := w.log.lines(); len(errors) != 2 || !strings.HasPrefix(errors[1], healedLine) {
				t.Errorf("logged %q", errors)
			}
			w.expectPass(0, 0)
			if got := w.waiting(); len(got) > 0 {
				t.Errorf("waiting: %.200q", got)
			}
		})
	}
}

// A job that is stuck in front of the pool doesn't keep a push from telling Run
// that the next one is due earlier than it thinks.
func TestBrokenQueueDelaysNoPush(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.push("stuck", "u", 1)
	w.push("far", "t", "5000000000")
	w.do("SET", prefix+"ready_queue:u", "no list")
	w.server = New(w.pool(), Options{Interval: time.Hour, Logger: w.log})
	w.run()
	awaitListeners(t, w.Server, 1)
	jobs := store.New(store.Pool{Pool: w.pool()}, prefix)
	for n := range 2 {
		job := store.Job{ID: fmt.Sprint("near", n), Topic: "t", Body: "body"}
		if err := jobs.Push(t.Context(), job, store.Due{After: 200 * time.Millisecond}, time.Hour, store.Replace); err != nil {
			t.Fatal(err)
		}
		w.log.awaitMoved(t, n+1)
	}
	w.expect(redistest.State{
		Pool: []string{"stuck", "far"}, Ready: queues{"t": {"near0", "near1"}},
		Buckets: buckets{"stuck": "u body", "far": "t body", "near0": "t body", "near1": "t body"},
		Other:   buckets{prefix + "ready_queue:u": "string"},
	})
}

// A pass asks Redis once to move jobs of a broken topic, and believes it.
func TestBrokenQueueIsAskedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.server.batch = batchSize{budget: 1, current: minBatch}
	w.many(5*minBatch, 1)
	w.do("SET", prefix+"ready_queue:topic0", "no list")
	w.do("CONFIG", "RESETSTAT")
	w.expectPass(0, 0)
	stats, err := redis.String(w.do("INFO", "commandstats"), nil)
	if err != nil || !strings.Contains(stats, "cmdstat_type:calls=1,") { // TYPE is what a move begins with
		t.Errorf("%v, commands:\n%s", err, stats)
	}
}

// Many stuck jobs are not looked at on each pass, but again and again.
func TestBlockedFront(t *testing.T) {
	var b blockedFront
	now := time.Now()
	if n := b.skip(now); n != 0 {
		t.Errorf("nothing is blocked, but %d jobs are skipped", n)
	}
	b.found(manyBlocked, time.Hour)
	if n := b.skip(now); n != 0 {
		t.Errorf("%d blocked jobs: %d are skipped, want none", manyBlocked, n)
	}
	b.found(manyBlocked+1, time.Hour)
	if n := b.skip(now.Add(blockedShare*time.Hour - time.Second)); n != manyBlocked+1 {
		t.Errorf("%d blocked jobs: %d are skipped", manyBlocked+1, n)
	}
	if n := b.skip(time.Now().Add(blockedShare*time.Hour + time.Second)); n != 0 {
		t.Errorf("%d jobs are skipped when it is time to look again", n)
	}
	b.found(0, time.Hour)
	if n := b.skip(now); n != 0 {
		t.Errorf("nothing is blocked any more, but %d jobs are skipped", n)
	}
}

// TestBrokenQueues has two broken topics, each of which is reported for itself.
func TestBrokenQueues(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for n, topic := range []string{"t", "u", "a\nb", "v"} {
		w.push(fmt.Sprint("a", n), topic, n)
		w.push(fmt.Sprint("b", n), topic, 100+n)
	}
	w.do("SET", prefix+"ready_queue:u", "no list")
	w.do("HSET", prefix+"ready_queue:a\nb", "no", "list")
	w.expectPass(4, 0)
	_, errors, _ := w.log.lines()
	slices.Sort(errors)
	// In an error of its own, Redis makes a newline a space.
	want := []string{"Jobs of a topic can't be moved, Topic: a\nb: WRONGTYPE ready queue delayer:ready_queue:a b is a hash, not a list", brokenLine}
	if !slices.Equal(errors, want) {
		t.Errorf("logged %q, want %q", errors, want)
	}
	w.do("DEL", prefix+"ready_queue:u")
	w.expectPass(2, 0)
	w.expectPass(0, 0)
	if _, errors, _ = w.log.lines(); len(errors) != 3 || !strings.HasPrefix(errors[2], healedLine) {
		t.Errorf("logged %q", errors)
	}
	w.do("DEL", prefix+"ready_queue:a\nb")
	w.expectPass(2, 0)
	w.expect(redistest.State{
		Ready:   queues{"t": {"a0", "b0"}, "u": {"a1", "b1"}, "a\nb": {"a2", "b2"}, "v": {"a3", "b3"}},
		Buckets: buckets{"a0": "t body", "b0": "t body", "a1": "u body", "b1": "u body", "a2": "a\nb body", "b2": "a\nb body", "a3": "v body", "b3": "v body"},
	})
}

// TestBrokenPool has the pool be no zset: the log names the key, nothing is
// changed, and all goes on when the key is gone.
func TestBrokenPool(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do("SET", prefix+"job_pool", "no zset")
	w.do("LPUSH", prefix+"ready_queue:t", "r")
	if _, err := w.server.pass(context.Background(), context.Background()); err == nil || !strings.Contains(err.Error(), "job pool delayer:job_pool") {
		t.Errorf("error %v", err)
	}
	w.run()
	w.log.awaitError(t, "Redis does not work for us: WRONGTYPE Operation against a key holding the wrong kind of value (job pool delayer:job_pool)")
	w.expect(redistest.State{Ready: queues{"t": {"r"}}, Other: buckets{prefix + "job_pool": "string"}})
	w.do("DEL", prefix+"job_pool")
	w.push("a", "t", 1)
	w.log.awaitError(t, "over after")
	w.log.awaitMoved(t, 1)
	w.expect(redistest.State{Ready: queues{"t": {"r", "a"}}, Buckets: buckets{"a": "t body"}})
	if _, errors, _ := w.log.lines(); len(errors) != 2 {
		t.Errorf("logged %q", errors)
	}
}
