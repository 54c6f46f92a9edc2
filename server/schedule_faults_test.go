package server

import (
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// A schedule with a broken bucket affects no other schedule and no job.
func TestBrokenSchedule(t *testing.T) {
	for name, breakIt := range map[string]func(w *world, bucket string){
		"a count":   func(w *world, bucket string) { w.Do("HSET", bucket, "ran", "x") },
		"jitter":    func(w *world, bucket string) { w.Do("HSET", bucket, "jitter", "x") },
		"no jitter": func(w *world, bucket string) { w.Do("HDEL", bucket, "jitter") },
		"no topic":  func(w *world, bucket string) { w.Do("HDEL", bucket, "to") },
		"no body":   func(w *world, bucket string) { w.Do("HDEL", bucket, "content") },
		"options":   func(w *world, bucket string) { w.Do("HSET", bucket, "options", "x") },
		"revision":  func(w *world, bucket string) { w.Do("HSET", bucket, "revision", "x") },
		"next":      func(w *world, bucket string) { w.Do("HSET", bucket, "next", "x") },
		"late":      func(w *world, bucket string) { w.Do("HSET", bucket, "late", "9223372036854775807") },
		"overlap":   func(w *world, bucket string) { w.Do("HSET", bucket, "past", "x y z") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.mover().stuck.every = 20 * time.Millisecond
			w.schedule(aSchedule("bad", "@every 1h"), -3*time.Hour)
			w.schedule(aSchedule("good", "@every 1h"), -2*time.Second)
			breakIt(w, prefix+"job_bucket:"+store.ScheduleID("bad"))
			w.push("j", "u", 1)
			for range 3 {
				_, err := passOf(w.server)
				if err != nil {
				}
			}
			if n := len(w.Queue("u")); n != 1 {
				t.Errorf("%d jobs of another topic are ready", n)
			}
			fired := 0
			for _, id := range w.Queue("t") {
				if id[:6] == "{good}" {
					fired++
				}
			}
			if fired != 1 {
				t.Errorf("the other schedule has fired %d jobs", fired)
			}
		})
	}
}

// A schedule whose bucket has another type affects no other schedule.
func TestRepairBesideABrokenSchedule(t *testing.T) {
	w := newWorld(t)
	w.schedule(aSchedule("bad", "@every 1h"), time.Hour)
	w.schedule(aSchedule("moved", "@every 1h"), time.Hour)
	w.Do("SET", prefix+"job_bucket:"+store.ScheduleID("bad"), "text")
	id := store.ScheduleID("moved")
	w.Do("ZREM", prefix+"job_pool", id) // as if an old server had moved it and an old consumer had popped it
	_, err := w.store().RepairSchedules(t.Context(), "", true)
	if err != nil {
	}
	if w.Do("ZSCORE", prefix+"job_pool", id) == nil {
		t.Error("a schedule is not put back, as another one is broken")
	}
}
