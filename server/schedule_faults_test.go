package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// A schedule that cannot be fired is retried and delays nothing else.
func TestScheduleOfABrokenQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mover().stuck.every = 20 * time.Millisecond
	w.Do("SET", prefix+"ready_queue:t", "text")
	bad := aSchedule("bad", "* * * *") // our code never writes such a spec
	bad.Topic = "u"
	w.schedule(bad, -time.Second)
	first := w.schedule(aSchedule("a", "@every 1h"), -time.Second)
	w.push("j", "u", 1)
	w.pass()
	w.expectReady("u", "j")
	w.log.expectErrorsWith(t, "Schedule \"bad\" can't be read, its jobs are not pushed: \"* * * *\": it has 4 fields", "Schedules can't be fired: WRONGTYPE")
	w.Do("DEL", prefix+"ready_queue:t")
	until(t, "it is fired", func() bool { w.pass(); return len(w.Queue("t")) == 1 })
	w.expectReady("t", store.OccurrenceID("a", first))
	w.log.awaitInfo(t, "Schedules can't be fired: over after")
	check(t, w.store().RemoveSchedule(t.Context(), "bad", ""))
	until(t, "the one that is gone is no trouble", func() bool { w.pass(); return len(w.mover().outages.running) == 0 })
	w.log.awaitInfo(t, "Schedule \"bad\" can't be read, its jobs are not pushed: over after")
}

// An old server moves a schedule like any job. Our server puts it back.
func TestScheduleMovedByAnOldServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run()
	s := aSchedule("a", "@every 80ms")
	s.Missed = store.MissedAll // of the last 100: a busy machine may stall for some seconds
	first := w.schedule(s, 100*time.Millisecond)
	id := store.ScheduleID("a")
	stolen := 0
	until(t, "it was moved three times, and has all occurrences nevertheless", func() bool {
		if stolen < 3 && w.Do("ZREM", prefix+"job_pool", id) == int64(1) {
			w.Do("LPUSH", prefix+"ready_queue:"+store.ScheduleTopic, id)
			stolen++
			until(t, "it is back", func() bool { return w.Do("ZSCORE", prefix+"job_pool", id) != nil })
		}
		return stolen == 3 && len(w.Queue("t")) > 25
	})
	for i, got := range w.Queue("t")[:25] {
		if want := store.OccurrenceID("a", first.Add(time.Duration(i)*80*time.Millisecond)); got != want {
			t.Fatalf("job %d is %s, want %s", i, got, want)
		}
	}
	_, errors := w.log.lines()
	if mention(errors, "Schedule \"a\" was moved by a server that does not know schedules, and was restored") == 0 {
		t.Errorf("the log has %q", errors)
	}
}

// Many occurrences pass while Redis is down: one of them gets a job, and the others are counted.
func TestRedisAwayOverOccurrences(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run()
	first := w.schedule(aSchedule("a", "@every 50ms"), 50*time.Millisecond)
	until(t, "it runs", func() bool { return len(w.Queue("t")) >= 3 })
	w.Hang()
	time.Sleep(600 * time.Millisecond) // more than ten occurrences
	w.Continue()
	until(t, "it runs again", func() bool { return w.scheduled("a").NotRun.Late >= 9 })
	jobs := len(w.Queue("t"))
	until(t, "it goes on", func() bool { return len(w.Queue("t")) >= jobs+3 })
	expectOccurrences(t, w, "a", first, 50*time.Millisecond)
}

// expectOccurrences checks that each occurrence of a schedule had one job or was counted as one without a job. Servers
// may be running.
func expectOccurrences(t *testing.T, w *world, name string, first time.Time, every time.Duration) (jobs, late int) {
	t.Helper()
	queue := w.Queue("t")
	s := w.scheduled(name) // read after the queue, so that all jobs in the queue are counted
	seen := map[string]int{}
	for _, id := range queue {
		seen[id]++
	}
	occurrences := int(s.Next.Sub(first) / every)
	for i := range occurrences {
		switch seen[store.OccurrenceID(name, first.Add(time.Duration(i)*every))] {
		case 0:
		case 1:
			jobs++
		default:
			t.Errorf("%s has several jobs of moment %d", name, i)
		}
	}
	if int(s.Ran+s.NotRun.Late) != occurrences || jobs > int(s.Ran) || s.NotRun.Overlapped+s.NotRun.Paused > 0 || !s.Next.Equal(first.Add(time.Duration(occurrences)*every)) {
		t.Errorf("%s has had %d occurrences, %d jobs in the queue, and says %+v", name, occurrences, jobs, s)
	}
	return jobs, int(s.NotRun.Late)
}

// A server with the documented permissions moves jobs, fires and repairs schedules, and has a heartbeat.
func TestRightsOfSchedules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.schedule(aSchedule("a", "@every 1h"), -time.Second)
	moved := w.schedule(aSchedule("b", "@every 1h"), time.Hour)
	w.Do("ZREM", prefix+"job_pool", store.ScheduleID("b"))
	w.Do("LPUSH", prefix+"ready_queue:"+store.ScheduleTopic, store.ScheduleID("b"), "job")
	w.push("job", store.ScheduleTopic, 1e12)
	w.push("moved", "u", 1)
	w.SetUser(redistest.Rights(t, "daemon"))
	w.server = serverOn(w.UserPool(), 1, w.options())
	stop := w.run()
	w.awaitServer(t, "server", anything)
	w.log.awaitMoved(t, 2)
	stop()
	w.expectReady("t", store.OccurrenceID("a", first))
	w.expectReady("u", "moved")
	w.server = serverOn(w.pool(), 1, w.options())
	if b := w.scheduled("b"); !b.Due.Equal(moved) {
		t.Errorf("the other is %+v", b)
	}
	if denied := w.Do("ACL", "LOG").([]any); len(denied) > 0 {
		t.Errorf("Redis has refused %q", denied)
	}
}

// Without the permission to follow a job, such a schedule waits and the log reports that; other schedules continue.
func TestFollowWithoutRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := aSchedule("a", "@every 1h")
	s.Overlap = store.OverlapFollow
	first := w.schedule(s, -time.Second)
	w.pass()
	w.reserve("t", time.Hour)
	w.Do("HSET", prefix+"job_bucket:"+store.ScheduleID("a"), "next", time.Now().Add(-time.Second).UnixMilli())
	w.Do("ZADD", prefix+"job_pool", 1, store.ScheduleID("a"))
	other := w.schedule(aSchedule("b", "@every 1h"), -time.Second)
	was := w.scheduled("a")
	passWith := func(rights string) {
		t.Helper()
		w.SetUser(rights)
		w.server = serverOn(w.UserPool(), 1, w.options())
		check(t, w.server.Pass(t.Context()))
		w.server = serverOn(w.pool(), 1, w.options())
	}
	passWith(redistest.Rights(t, "daemon") + " -pttl")
	w.expectReady("t", store.OccurrenceID("b", other))
	if got := w.scheduled("a"); got.Ran != was.Ran || !got.Next.Equal(was.Next) || !got.Due.After(was.Due) {
		t.Errorf("it is %+v", got)
	}
	if _, errors := w.log.lines(); mention(errors, "PTTL") == 0 {
		t.Errorf("the log has %q", errors)
	}
	w.Do("ZADD", prefix+"job_pool", 1, store.ScheduleID("a"))
	passWith(redistest.Rights(t, "daemon"))
	if got := w.scheduled("a"); got.Ran != was.Ran+1 {
		t.Errorf("with the documented rights it is %+v", got)
	}
	if info, _ := w.log.lines(); mention(info, fmt.Sprintf("Schedule has fired, Topic: t, IDs: [%s]", store.OccurrenceID("a", first))) != 2 {
		t.Errorf("the log does not name the follower by its ID at delivery: %q", info)
	}
}

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
