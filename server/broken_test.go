package server

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// TestOrphans mixes due IDs without a usable bucket with live jobs. One pass moves the live jobs, drops the others and
// logs them once.
func TestOrphans(t *testing.T) {
	t.Parallel()
	for _, batch := range []float64{minBatch, maxBatch} {
		w := newWorld(t)
		w.mover().batch = batchSize{budget: 1, current: batch}
		var orphans, live []string
		for n := range 110 {
			if n%11 == 10 {
				live = append(live, fmt.Sprint("live", n))
				w.push(fmt.Sprint("live", n), "t", n)
				continue
			}
			id := fmt.Sprint("orphan", n)
			orphans = append(orphans, id)
			w.Do("ZADD", prefix+"job_pool", n, id)
			switch n % 3 {
			case 1:
				w.Do("HSET", prefix+"job_bucket:"+id, "body", "body of a job without a topic")
			case 2:
				w.Do("SET", prefix+"job_bucket:"+id, "no hash")
			}
		}
		w.Do("ZADD", prefix+"job_pool", "5000000000", "not due yet")
		keys := w.keys()

		w.expectPass(10, 100)
		w.expectReady("t", live...)
		w.expectWaiting("not due yet")
		if n := w.keys(); n != keys+1 {
			t.Errorf("%d keys, were %d without the queue", n, keys)
		}
		_, errors := w.log.lines()
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
		if _, again := w.log.lines(); len(again) != len(errors) {
			t.Errorf("logged again: %q", again[len(errors):])
		}
	}
}

const (
	brokenLine = "Jobs of a topic can't be moved, Topic: u: WRONGTYPE Operation against a key holding the wrong kind of value (ready queue delayer:ready_queue:u); they are tried again every 1h"
	healedLine = "Jobs of a topic can't be moved, Topic: u: over after "
)

// hours makes waiting jobs due two hours earlier.
func (w *world) hours() {
	w.TB.Helper()
	w.Do("EVAL", `for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('ZINCRBY', KEYS[1], -7200, id) end`, 1, prefix+"job_pool")
	w.mover().stuck.free = w.mover().stuck.free.Add(-2 * time.Hour)
}

// TestBrokenQueue makes the ready queue of topic u a key of another type. Its jobs stay in the pool, in order, and are
// retried; other topics' jobs are moved. The log names topic and key once, and reports the repair of the queue.
func TestBrokenQueue(t *testing.T) {
	t.Parallel()
	for _, stuck := range []int{1, minBatch - 1, minBatch, 3 * minBatch, 2500} {
		t.Run(fmt.Sprint(stuck), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.mover().stuck.every = time.Hour
			w.mover().batch = batchSize{budget: 1, current: minBatch} // the batch size stays small
			// Jobs of u and t alternate, and jobs of v follow: some fall due between those of u, some after all of
			// them.
			w.many(2*stuck, 2)
			w.Do("EVAL", `for n = 0, ARGV[1] - 1 do redis.call('HSET', string.format('delayer:job_bucket:job%06d', n), 'topic', n % 2 == 0 and 'u' or 't') end`, 0, 2*stuck)
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
			w.Do("SET", prefix+"ready_queue:u", "no list")

			for range 2 {
				moved := stuck + 2*minBatch - len(w.Queue("t")) - len(w.Queue("v"))
				w.expectPass(moved, 0)
				w.expectWaiting(u...)
				w.expectReady("t", others...)
				// New jobs do not wait for the stuck ones.
				w.push("late", "w", 2e6)
				looks := 0
				w.onLook(func(n int) { looks = n })
				w.expectPass(1, 0)
				if looks != 1 {
					t.Errorf("%d batches for one job", looks)
				}
				w.log.expectErrors(t, brokenLine)
				w.hours()
			}

			w.Do("DEL", prefix+"ready_queue:u")
			w.expectPass(stuck, 0)
			w.expectReady("u", u...)
			w.log.expectErrors(t, brokenLine)
			if info, _ := w.log.lines(); mention(info, healedLine) != 1 {
				t.Error("the log does not say that it is over")
			}
			w.expectPass(0, 0)
			w.expectWaiting()
		})
	}
}

// Run retries a broken queue until it is repaired, and then logs no more about it.
func TestBrokenQueueHeals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.server = serverOn(w.pool(), 1, Options{Interval: time.Hour, Logger: w.log.logger()})
	w.mover().stuck.every = 20 * time.Millisecond
	const jobs = 1000
	w.many(jobs, 1)
	w.Do("SET", prefix+"ready_queue:topic0", "no list")
	w.run()
	w.log.awaitError(t, "Topic: topic0: WRONGTYPE")
	until(t, "second try", func() bool { return w.Calls("lpush") > 2*jobs/minBatch })
	w.Do("DEL", prefix+"ready_queue:topic0")
	w.log.awaitMoved(t, jobs)
	w.log.awaitInfo(t, "Topic: topic0: over after ")
	got := w.Queue("topic0")
	slices.Sort(got) // a round may have been in progress
	if !slices.Equal(got, manyIDs(jobs)) {
		t.Errorf("%d jobs are ready, want %d, each once", len(got), jobs)
	}
	w.log.expectErrorsWith(t, "Topic: topic0: WRONGTYPE")
}

// A problem is over when the jobs of the broken queue are gone.
func TestBrokenQueuePurged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mover().stuck.every = 20 * time.Millisecond
	w.push("a", "u", 1)
	w.Do("SET", prefix+"ready_queue:u", "no list")
	w.run()
	w.log.awaitError(t, "Topic: u: WRONGTYPE")
	w.Do("DEL", prefix+"job_pool", prefix+"job_bucket:a")
	w.log.awaitInfo(t, healedLine)
	w.log.expectErrors(t, strings.Replace(brokenLine, "1h", "20ms", 1))
}

// A stuck job does not make Run late for a new job, whether that is due before or after the next retry.
func TestBrokenQueueDelaysNoPush(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{retryEvery, 50 * time.Millisecond} {
		w := newWorld(t)
		w.push("stuck", "u", 1)
		w.push("far", "t", "5000000000")
		w.Do("SET", prefix+"ready_queue:u", "no list")
		w.server = serverOn(w.pool(), 1, Options{Interval: time.Hour, Logger: w.log.logger()})
		w.mover().stuck.every = every
		w.run()
		awaitListeners(t, w.Server, 1)
		jobs := store.New(w.pool(), prefix)
		for n := range 2 {
			job := store.Job{ID: fmt.Sprint("near", n), Topic: "t", Body: "body"}
			check(t, pushTo(t.Context(), jobs, job, store.Due{After: 200 * time.Millisecond}))
			w.log.awaitMoved(t, n+1)
		}
		w.Expect(redistest.State{
			Pool: []string{"stuck", "far"}, Ready: queues{"t": {"near0", "near1"}},
			Buckets: buckets{"stuck": "u body", "far": "t body", "near0": "t body", "near1": "t body"},
			Other:   buckets{prefix + "ready_queue:u": "string"},
		})
	}
}

// TestBrokenPool makes the pool a key of another type. The log and the server's entry name the key, nothing is changed,
// and moves resume when the key is gone.
func TestBrokenPool(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Do("SET", prefix+"job_pool", "no zset")
	w.Do("HSET", prefix+"job_bucket:r", "topic", "t", "body", "body")
	w.Do("LPUSH", prefix+"ready_queue:t", "r")
	if _, err := passOf(w.server); err == nil || !strings.Contains(err.Error(), "job pool delayer:job_pool") {
		t.Errorf("error %v", err)
	}
	w.run()
	w.log.awaitError(t, "Redis does not work for us: WRONGTYPE Operation against a key holding the wrong kind of value (job pool delayer:job_pool)")
	w.awaitServer(t, "error", func(s store.ServerState) bool {
		return s.Error == "WRONGTYPE Operation against a key holding the wrong kind of value (job pool delayer:job_pool)"
	})
	w.Expect(redistest.State{Ready: queues{"t": {"r"}}, Buckets: buckets{"r": "t body"}, Other: buckets{prefix + "job_pool": "string"}})
	w.Do("DEL", prefix+"job_pool")
	w.awaitServer(t, "end of the error", func(s store.ServerState) bool { return s.Error == "" })
	w.push("a", "t", 1)
	w.log.awaitInfo(t, "over after")
	w.log.awaitMoved(t, 1)
	w.Expect(redistest.State{Ready: queues{"t": {"r", "a"}}, Buckets: buckets{"a": "t body", "r": "t body"}})
	w.log.expectErrorsWith(t, "job pool delayer:job_pool")
}

var t1, u1 = topicTrouble("t"), topicTrouble("u")

// 200,000 stuck jobs make about 10,000 retries a second from the first round on, each job in its turn.
func TestStuckJobsCostLittle(t *testing.T) {
	const jobs, batch = 200000, 500
	s := newStuckJobs(newOutages(slog.New(slog.DiscardHandler)))
	start := time.UnixMilli(1_700_000_000_000)
	type retry struct {
		at  time.Time
		job int
	}
	var waiting []retry // in due order
	for n := range jobs {
		waiting = append(waiting, retry{start, n})
	}
	tries := map[int]int{} // by second, after the first round
	last := -1
	for now := start; now.Before(start.Add(time.Minute)); now = now.Add(10 * time.Millisecond) {
		for len(waiting) > 0 && !waiting[0].at.After(now) {
			due := 0
			for due < min(batch, len(waiting)) && !waiting[due].at.After(now) {
				due++
			}
			first := s.retryAt(now, 0)
			for place := range due {
				// Ten per ms, as in the script.
				at := first.Add(time.Duration(place/10) * time.Millisecond)
				waiting = append(waiting, retry{at, waiting[place].job})
				if now.After(start) {
					tries[int(now.Sub(start)/time.Second)]++
					if job := waiting[place].job; job != (last+1)%jobs {
						t.Fatalf("at %v: job %d is tried after job %d", now.Sub(start), job, last)
					} else {
						last = job
					}
				}
			}
			waiting = waiting[due:]
			s.putBack(t1, due, errors.New("broken"), now)
		}
	}
	for second := range 60 {
		if n := tries[second]; second < 5 && n > 0 || second >= 5 && (n < 9900 || n > 10100) {
			t.Errorf("%d tries in second %d", n, second)
		}
	}
}

// A batch in several parts and the jobs after it are retried in order. A single stuck job is retried every 5 s, even
// among jobs that are not stuck.
func TestRetryAt(t *testing.T) {
	s := newStuckJobs(newOutages(slog.New(slog.DiscardHandler)))
	now := time.UnixMicro(1_700_000_000_123_456)
	for _, c := range []struct {
		place int
		want  int64 // ms
	}{{0, 1_700_000_005_124}, {1, 1_700_000_005_124}, {5, 1_700_000_005_124}, {6, 1_700_000_005_125}, {1000, 1_700_000_005_224}} {
		if got := s.retryAt(now, c.place); got.UnixMicro() != c.want*1000 {
			t.Errorf("place %d: at %d µs, want %d ms", c.place, got.UnixMicro(), c.want)
		}
	}
	s.putBack(t1, 1000, errors.New("broken"), now)
	if got := s.retryAt(now, 0).UnixMilli(); got != 1_700_000_005_224 {
		t.Errorf("after 1,000 stuck jobs: at %d", got)
	}
	if got := s.retryAt(now.Add(time.Minute), 0).UnixMilli(); got != 1_700_000_065_124 {
		t.Errorf("a minute later: at %d", got)
	}
}

// A problem is over when jobs are moved, or when it has not been met for a while, but not while a retry is still to
// come.
func TestStuckJobsOver(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	broken := errors.New("broken")
	after := func(s *stuckJobs, d time.Duration) bool { s.forget(now.Add(d)); return len(s.last) == 0 }
	for _, c := range []struct {
		name string
		do   func(s *stuckJobs)
		when time.Duration // when the problem is over
	}{
		{"purged", func(*stuckJobs) {}, retryEvery + overAfter*retryEvery},
		{"moved", func(s *stuckJobs) { s.over(t1) }, 0},
		{"another one moved", func(s *stuckJobs) { s.over(u1) }, retryEvery + overAfter*retryEvery},
		{"stuck again", func(s *stuckJobs) { s.putBack(t1, 1, broken, now.Add(time.Minute)) }, time.Minute + retryEvery + overAfter*retryEvery},
		{"met again", func(s *stuckJobs) { s.met(t1, now.Add(time.Minute)) }, time.Minute + overAfter*retryEvery},
		{"another one met", func(s *stuckJobs) { s.met(u1, now.Add(time.Minute)) }, retryEvery + overAfter*retryEvery},
		{"many of them", func(s *stuckJobs) { s.putBack(t1, 1_000_000, broken, now) }, 100*time.Second + retryEvery + overAfter*retryEvery},
	} {
		log := new(recorder)
		s := newStuckJobs(newOutages(slog.New(lines{log})))
		s.putBack(t1, 1, broken, now)
		c.do(&s)
		if c.when > 0 && after(&s, c.when-time.Millisecond) {
			t.Errorf("%s: over before %v", c.name, c.when)
		}
		if !after(&s, c.when+2*time.Millisecond) {
			t.Errorf("%s: not over after %v", c.name, c.when)
		}
		if want := []string{"Jobs of a topic can't be moved, Topic: t: broken; they are tried again every 5s"}; !slices.Equal(log.errors, want) || len(log.info) != 1 {
			t.Errorf("%s: logged %q and %q", c.name, log.errors, log.info)
		}
	}
}
