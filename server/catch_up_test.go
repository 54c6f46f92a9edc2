package server

import (
	"fmt"
	"slices"
	"testing"
)

// TestFreshJobsDoNotWaitForTheBacklog makes jobs fall due during a backlog. Each of them is in its queue within two
// more reads of due jobs, and the backlog is moved in due order.
func TestFreshJobsDoNotWaitForTheBacklog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const jobs, fresh = 3000, 20
	w.many(jobs, 1)
	w.mover().batch = batchSize{budget: 1, current: minBatch} // the batch size stays small
	want := manyIDs(jobs)
	w.onLook(func(n int) {
		if n <= fresh {
			id := fmt.Sprint("fresh", n)
			w.push(id, "u", redisTime(w))
			want = append(want, id)
		}
		if n > 2 && n <= fresh+2 {
			if got := w.Queue("u"); len(got) < n-2 || got[n-3] != fmt.Sprint("fresh", n-2) {
				t.Errorf("look-up %d: job fresh%d is not ready: %q", n, n-2, got)
			}
			if left := len(w.waiting()); left < jobs/20 {
				t.Fatalf("the backlog ends too early to say anything: %d", left)
			}
		}
	})
	w.expectPass(jobs+fresh, 0)
	got := append(w.Queue("topic0"), w.Queue("u")...)
	if !slices.Equal(got, want) {
		t.Errorf("%d jobs are ready, want %d, or the order is wrong", len(got), len(want))
	}
}

// The backlog gets half of each batch, no matter how many jobs fall due meanwhile.
func TestBacklogDoesNotWaitForFreshJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const jobs = 1000
	w.many(jobs, 1)
	w.mover().batch = batchSize{budget: 1, current: minBatch}
	pushed, looks := 0, 0
	w.onLook(func(n int) {
		looks = n
		if left := len(w.Queue("topic0")); left < jobs && n <= 2*jobs/minBatch+2 {
			for range 2 * minBatch {
				pushed++
				w.push(fmt.Sprint("fresh", pushed), "u", redisTime(w))
			}
		}
		if done := len(w.Queue("topic0")); n > 1 && done < min(jobs, (n-1)*minBatch/2) {
			t.Errorf("at look-up %d: %d of the backlog are ready", n, done)
		}
	})
	if r := w.pass(); r.Moved != jobs+pushed {
		t.Errorf("moved %d jobs, want %d", r.Moved, jobs+pushed)
	}
	if looks <= jobs/minBatch || pushed <= jobs {
		t.Errorf("%d look-ups, %d fresh jobs: the test says nothing", looks, pushed)
	}
}
