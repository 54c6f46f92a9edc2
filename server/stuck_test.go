package server

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"
)

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
