package server

import (
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// A schedule with a broken bucket affects no other schedule and no job.
func TestBrokenSchedule(t *testing.T) {
	for _, broken := range [][]any{
		{"HSET", "ran", "x"}, {"HSET", "jitter", "x"}, {"HDEL", "jitter"}, {"HDEL", "to"}, {"HDEL", "content"}, {"HSET", "options", "x"},
		{"HSET", "revision", "x"}, {"HSET", "next", "x"}, {"HSET", "late", "9223372036854775807"}, {"HSET", "past", "x y z"},
	} {
		t.Run(broken[0].(string)+" "+broken[1].(string), func(t *testing.T) {
			w := newWorld(t)
			w.mover().stuck.every = 20 * time.Millisecond
			w.schedule(aSchedule("bad", "@every 1h"), -3*time.Hour)
			w.schedule(aSchedule("good", "@every 1h"), -2*time.Second)
			w.Do(broken[0].(string), append([]any{prefix + "job_bucket:" + store.ScheduleID("bad")}, broken[1:]...)...)
			w.push("j", "u", 1)
			for range 3 {
				passOf(w.server)
			}
			w.expectReady("u", "j")
			if ready := w.Queue("t"); mention(ready, "{good}") != 1 {
				t.Errorf("the other schedule should have one job: %q", ready)
			}
		})
	}
}

// A schedule whose bucket has another type does not keep another one from being repaired.
func TestRepairBesideABrokenSchedule(t *testing.T) {
	w := newWorld(t)
	w.schedule(aSchedule("bad", "@every 1h"), time.Hour)
	w.schedule(aSchedule("moved", "@every 1h"), time.Hour)
	w.Do("SET", prefix+"job_bucket:"+store.ScheduleID("bad"), "text")
	id := store.ScheduleID("moved")
	w.Do("ZREM", prefix+"job_pool", id) // as if an old server had moved it and an old consumer had popped it
	w.store().RepairSchedules(t.Context(), "", true)
	if w.Do("ZSCORE", prefix+"job_pool", id) == nil {
		t.Error("a schedule is not put back, as another one is broken")
	}
}
