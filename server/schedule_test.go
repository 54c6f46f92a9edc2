package server

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// aSchedule returns a schedule of topic t, as the client stores it.
func aSchedule(name, spec string) store.Schedule {
	return store.Schedule{Name: name, Spec: spec, Zone: "UTC", Topic: "t", Body: "body", Missed: store.MissedOnce, Overlap: store.OverlapAllow,
		Terms: store.Terms{Lifetime: time.Hour}}
}

// schedule stores a schedule whose first occurrence is this far from now by Redis's clock, in whole milliseconds.
func (w *world) schedule(s store.Schedule, in time.Duration) (first time.Time) {
	w.TB.Helper()
	at := w.store()
	now, err := at.Time(context.Background())
	check(w.TB, err)
	first = now.Add(in).Truncate(time.Millisecond)
	_, _, err = at.PutSchedule(context.Background(), s, first)
	check(w.TB, err)
	return first
}

func (w *world) store() *store.Store { return w.server.movers[0].store }

func (w *world) schedules() []store.Scheduled {
	w.TB.Helper()
	all, err := w.store().Schedules(context.Background())
	check(w.TB, err)
	return all.List
}

func (w *world) scheduled(name string) store.Scheduled {
	w.TB.Helper()
	for _, s := range w.schedules() {
		if s.Name == name {
			return s
		}
	}
	w.TB.Fatalf("there is no schedule %s", name)
	return store.Scheduled{}
}

func TestFiringOf(t *testing.T) {
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(minutes float64) time.Time { return day.Add(time.Duration(minutes * float64(time.Minute))) }
	for _, c := range []struct {
		name        string
		change      func(*store.Scheduled)
		now         time.Time
		late        int
		paused      int
		occurrences string // results of the last occurrences
		upcoming    time.Time
	}{
		{"in time", nil, at(0.001), 0, 0, "r", at(1)},
		{"three later: once", nil, at(3.5), 3, 0, "lllr", at(4)},
		{"many later: once", nil, at(5000.5), 5000, 0, "lllllllllr", at(5001)},
		{"skip, in time", func(s *store.Scheduled) { s.Missed = store.MissedSkip }, at(2.9), 2, 0, "llr", at(3)},
		{"skip, too late", func(s *store.Scheduled) { s.Missed, s.Spec = store.MissedSkip, "@hourly" }, at(62), 2, 0, "ll", at(120)},
		{"all", func(s *store.Scheduled) { s.Missed = store.MissedAll }, at(3.5), 0, 0, "rrrr", at(4)},
		{"all, too many", func(s *store.Scheduled) { s.Missed = store.MissedAll }, at(300.5), 201, 0, strings.Repeat("r", 100), at(301)},
		{"paused", func(s *store.Scheduled) { s.Paused = at(-1) }, at(3.5), 0, 4, "pppp", at(4)},
		{"paused, all", func(s *store.Scheduled) { s.Paused, s.Missed = at(-1), store.MissedAll }, at(20.5), 0, 21, "pppppppppp", at(21)},
		{"looked at too early", nil, at(-0.5), 0, 0, "", at(0)},
		{"it has ended", func(s *store.Scheduled) { s.Next = time.Time{} }, at(3.5), 0, 0, "", time.Time{}},
	} {
		s := store.Scheduled{Schedule: aSchedule("a", "* * * * *"), Next: day}
		if c.change != nil {
			c.change(&s)
		}
		f, err := firingOf(s, c.now)
		occurrences := ""
		for _, m := range f.Occurrences {
			occurrences += m.What
			if !m.Due.Equal(m.At) || m.At.After(c.now) {
				t.Errorf("%s: a job of %v is due at %v", c.name, m.At, m.Due)
			}
		}
		if err != nil || f.Late != c.late || f.Paused != c.paused || occurrences != c.occurrences || !f.Upcoming.Equal(c.upcoming) || f.Unknown {
			t.Errorf("%s: %d late, %d paused, %s, then %v, %v; want %d, %d, %s, %v", c.name, f.Late, f.Paused, occurrences, f.Upcoming, err, c.late, c.paused, c.occurrences, c.upcoming)
		}
	}
	s := store.Scheduled{Schedule: aSchedule("a", "* * * * *"), Next: day}
	s.Jitter = time.Minute
	dues := map[time.Time]bool{}
	for range 100 {
		f, _ := firingOf(s, day)
		if d := f.Occurrences[0].Due.Sub(day); d < 0 || d >= time.Minute {
			t.Errorf("the jitter is %v", d)
		}
		dues[f.Occurrences[0].Due] = true
	}
	if len(dues) < 90 {
		t.Errorf("of 100 only %d jitters differ", len(dues))
	}
	for what, s := range map[string]store.Schedule{"a bad spec": aSchedule("a", "* * * *"), "a bad zone": {Name: "a", Spec: "* * * * *", Zone: "Nowhere"}} {
		if f, err := firingOf(store.Scheduled{Schedule: s, Next: day}, day); err == nil || !f.Unknown {
			t.Errorf("%s: %+v, %v", what, f, err)
		}
	}
}

// An occurrence and the next one each get a job, among other jobs that fall due at the same time.
func TestPassFires(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.push("j1", "t", 1)
	w.push("j2", "u", 2)
	w.push("no schedule", store.ScheduleTopic, 3)
	first := w.schedule(aSchedule("a", "@every 1h"), -time.Second)
	w.pass()
	job := store.OccurrenceID("a", first)
	w.expectReady("t", job, "j1")
	w.expectReady("u", "j2")
	w.expectReady(store.ScheduleTopic, "no schedule")
	got := w.scheduled("a")
	if !got.Next.Equal(first.Add(time.Hour)) || got.Ran != 1 || got.NotRun != (store.NotRun{}) {
		t.Errorf("then it is %+v", got)
	}
	w.expectWaiting(got.ID)
	w.expectPass(0, 0)
	if info, _ := w.log.lines(); mention(info, fmt.Sprintf("Schedule has fired, Topic: t, IDs: [%s]", job)) != 1 {
		t.Errorf("the log: %q", info)
	}
	w.log.expectErrors(t)
}

// A job that falls due while many schedules are fired does not wait for all of them.
func TestJobsBesideManySchedules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const schedules = 300
	for n := range schedules {
		w.schedule(aSchedule(fmt.Sprint("s", n), "@daily"), -time.Second)
	}
	looks, fired := 0, -1
	w.server.test.beforeMove = func() {
		if looks++; looks == 1 {
			w.push("old", "v", 1)
			w.push("j", "u", float64(time.Now().UnixMilli())/1000)
		} else if fired < 0 && len(w.Queue("u")) == 1 {
			fired = len(w.Queue("t"))
		}
	}
	w.pass()
	if w.expectReady("u", "j"); fired < 0 || fired > schedules/2 {
		t.Errorf("it was ready when %d of %d schedules had been fired", fired, schedules)
	}
	w.expectReady("v", "old")
	if got := len(w.Queue("t")); got != schedules {
		t.Errorf("%d of %d schedules have a job", got, schedules)
	}
}

// Run fires each occurrence of a schedule on time, and plans the next one.
func TestRunFires(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options()
	o.Interval = 50 * time.Second // nothing else would find the occurrence
	w.server = New(w.pool(), o)
	w.run()
	first := w.schedule(aSchedule("a", "@every 70ms"), 100*time.Millisecond)
	until(t, "ten occurrences have passed", func() bool { return len(w.Queue("t")) >= 10 })
	s := w.scheduled("a")
	for i, id := range w.Queue("t")[:10] {
		if want := store.OccurrenceID("a", first.Add(time.Duration(i)*70*time.Millisecond)); id != want && s.NotRun.Late == 0 {
			t.Errorf("moment %d is %s, want %s", i, id, want)
		}
	}
}

// Occurrences without a job, because of a pause, an overlap or no server, are counted. The log gives the reason at most
// once a minute.
func TestOccurrencesWithoutJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	overlaps := aSchedule("overlaps", "@every 1h")
	overlaps.Overlap = store.OverlapSkip
	w.schedule(aSchedule("late", "@every 1h"), -5*time.Hour-time.Second)
	w.schedule(aSchedule("paused", "@every 1h"), -time.Second)
	check(t, w.store().PauseSchedule(t.Context(), "paused", true))
	w.schedule(overlaps, -time.Second)
	again := func(name string) {
		t.Helper()
		s := w.scheduled(name)
		w.Do("HSET", prefix+"job_bucket:"+s.ID, "next", s.Next.Add(-time.Hour).UnixMilli())
		w.Do("ZADD", prefix+"job_pool", 1, s.ID)
	}
	w.pass()
	for range 3 {
		again("overlaps")
		again("paused")
		w.pass()
	}
	for name, want := range map[string]store.NotRun{"late": {Late: 5}, "overlaps": {Overlapped: 3}, "paused": {Paused: 4}} {
		if got := w.scheduled(name); got.NotRun != want {
			t.Errorf("%s: %+v, want %+v", name, got.NotRun, want)
		}
	}
	_, errors := w.log.lines()
	slices.Sort(errors)
	if want := []string{"Schedule \"late\", occurrences without a job: 5, because no server ran in time", "Schedule \"overlaps\", occurrences without a job: 1, because the previous job is not done"}; !slices.Equal(errors, want) {
		t.Errorf("the log has %q, want %q", errors, want)
	}
	if info, _ := w.log.lines(); mention(info, "Schedule \"paused\", occurrences without a job: 1, because the schedule is paused") != 1 {
		t.Errorf("the log has %q", info)
	}
	for _, m := range w.mover().withoutJob {
		m.logged = m.logged.Add(-withoutJobEvery)
	}
	w.mover().withoutJob.log(w.mover().log)
	w.log.awaitError(t, "Schedule \"overlaps\", occurrences without a job: 2, because the previous job is not done")
}

// An Observer is told what was fired. Lateness counts for the last occurrence with a job; the overlapping ones have none.
func TestLatenessOfSchedulesThatOverlap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := newCounter()
	w.server.observers = append(w.server.observers, o)
	s := aSchedule("a", "@every 1h")
	s.Missed, s.Overlap = store.MissedAll, store.OverlapSkip
	w.schedule(s, -3*time.Hour-time.Second)
	w.pass()
	if len(o.fired) != 1 || o.fired[0] != (Fired{Schedule: "a", Topic: "t", Jobs: 1, Overlapped: 3, After: o.fired[0].After}) || o.fired[0].After.Truncate(time.Hour) != 3*time.Hour {
		t.Errorf("told of %+v, want one job that was three hours late", o.fired)
	}
}

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
	if mention(errors, "Schedule \"a\" was moved by a server that does not know schedules, and is put back") == 0 {
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

// Only Redis's clock counts, even if the host's clock is years off, as here.
func TestSchedulesGoByRedisClock(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", m.Addr()) }}
	defer pool.Close()
	zone, err := time.LoadLocation("Europe/Berlin")
	check(t, err)
	s := New(pool, Options{})
	at := time.Date(2031, 3, 29, 2, 30, 0, 0, zone) // the night before the clocks change
	daily, often := aSchedule("daily", "30 2 * * *"), aSchedule("often", "*/30 * * * *")
	daily.Zone, often.Zone, often.Topic = "Europe/Berlin", "Europe/Berlin", "u"
	m.SetTime(at.Add(-time.Minute))
	for _, of := range []store.Schedule{daily, often} {
		_, _, err := s.movers[0].store.PutSchedule(t.Context(), of, at)
		check(t, err)
	}
	for now := at; now.Before(at.Add(48 * time.Hour)); now = now.Add(10 * time.Minute) {
		m.SetTime(now)
		check(t, s.Pass(t.Context()))
	}
	f := redistest.On(t, m.Addr())
	want := []string{"{daily}@2031-03-29T01:30:00Z", "{daily}@2031-03-30T01:00:00Z", "{daily}@2031-03-31T00:30:00Z"} // the second one is in the gap, so it comes right after
	if got := f.Queue("t"); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	var half []string
	for now := at; now.Before(at.Add(48 * time.Hour)); now = now.Add(30 * time.Minute) {
		half = append(half, store.OccurrenceID("often", now))
	}
	if got := f.Queue("u"); !slices.Equal(got, half) {
		t.Errorf("got %v, want %v", got, half)
	}
	if all, err := s.movers[0].store.Schedules(t.Context()); err != nil || !reflect.DeepEqual(all.List[0].NotRun, store.NotRun{}) || all.List[0].Ran != 3 {
		t.Errorf("got %+v, %v", all, err)
	}
}

// When the spec or zone changes, overdue occurrences follow Missed; later ones follow the new spec. No server ran
// meanwhile.
func TestChangedScheduleKeepsWhatIsOverdue(t *testing.T) {
	t.Parallel()
	type change struct{ at, spec, zone, first string }
	for name, c := range map[string]struct {
		change func(*store.Schedule)
		spec   string
		next   string // of the new spec
		more   []change
		now    string
		want   []string
		notRun store.NotRun
		then   string
	}{
		"the spec": {nil, "0 7 * * *", "07:00", []change{{"07:10", "0 7,19 * * *", "UTC", "19:00"}}, "07:11", []string{"07:00"}, store.NotRun{}, "19:00"},
		"the zone": {nil, "0 7 * * *", "07:00", []change{{"07:10", "0 7 * * *", "America/New_York", "11:00"}}, "07:11", []string{"07:00"}, store.NotRun{}, "11:00"},
		"both are overdue": {func(s *store.Schedule) { s.Missed = store.MissedAll }, "0 7 * * *", "07:00", []change{{"07:10", "30 * * * *", "UTC", "07:30"}}, "09:00",
			[]string{"07:00", "07:30", "08:30"}, store.NotRun{}, "09:30"},
		"of both the last one": {nil, "0 7 * * *", "07:00", []change{{"07:10", "30 * * * *", "UTC", "07:30"}}, "09:00", []string{"08:30"}, store.NotRun{Late: 2}, "09:30"},
		"twice": {func(s *store.Schedule) { s.Missed = store.MissedAll }, "*/30 * * * *", "07:00",
			[]change{{"07:40", "45 * * * *", "UTC", "07:45"}, {"08:40", "@every 7h", "UTC", "15:40"}}, "08:41", []string{"07:00", "07:30", "07:45"}, store.NotRun{}, "15:40"},
		"twice, nothing is overdue by the second": {nil, "0 7 * * *", "07:00", []change{{"07:40", "0 20 * * *", "UTC", "20:00"}, {"08:40", "0 21 * * *", "UTC", "21:00"}}, "08:41",
			[]string{"07:00"}, store.NotRun{}, "21:00"},
		"they are skipped": {func(s *store.Schedule) { s.Missed = store.MissedSkip }, "0 7 * * *", "07:00", []change{{"07:10", "0 19 * * *", "UTC", "19:00"}}, "07:11",
			nil, store.NotRun{Late: 1}, "19:00"},
		"one that could not be read":  {nil, "* * * *", "07:00", []change{{"07:10", "0 19 * * *", "UTC", "19:00"}}, "07:11", nil, store.NotRun{}, "19:00"},
		"nothing is overdue":          {nil, "0 7 * * *", "07:00", []change{{"06:50", "0 8 * * *", "UTC", "08:00"}}, "07:11", nil, store.NotRun{}, "08:00"},
		"an occurrence at the change": {nil, "0 7 * * *", "07:00", []change{{"07:10", "10 * * * *", "UTC", "07:10"}}, "07:11", []string{"07:10"}, store.NotRun{Late: 1}, "08:10"},
	} {
		t.Run(name, func(t *testing.T) {
			m := miniredis.RunT(t)
			pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", m.Addr()) }}
			defer pool.Close()
			at := func(clock string) time.Time {
				at, err := time.Parse(time.RFC3339, "2031-06-02T"+clock+":00Z")
				check(t, err)
				return at
			}
			server := New(pool, Options{})
			s := aSchedule("a", c.spec)
			if c.change != nil {
				c.change(&s)
			}
			m.SetTime(at("06:45"))
			_, _, err := server.movers[0].store.PutSchedule(t.Context(), s, at(c.next))
			check(t, err)
			for _, change := range c.more {
				m.SetTime(at(change.at))
				s.Spec, s.Zone = change.spec, change.zone
				next, _, err := server.movers[0].store.PutSchedule(t.Context(), s, at(change.first))
				if err != nil || !next.Equal(at(change.first)) {
					t.Errorf("changed to %s its next occurrence is %v, %v, want %s", s.Spec, next, err, change.first)
				}
			}
			m.SetTime(at(c.now))
			check(t, server.Pass(t.Context()))
			var want []string
			for _, of := range c.want {
				want = append(want, store.OccurrenceID("a", at(of)))
			}
			if got := redistest.On(t, m.Addr()).Queue("t"); !slices.Equal(got, want) {
				t.Errorf("its jobs are %v, want %v", got, want)
			}
			all, err := server.movers[0].store.Schedules(t.Context())
			check(t, err)
			if got := all.List[0]; got.NotRun != c.notRun || !got.Next.Equal(at(c.then)) || !got.Due.Equal(got.Next) || got.Old != nil {
				t.Errorf("then it is %+v, want %+v, next %s", got, c.notRun, c.then)
			}
		})
	}
}

// A server with the documented permissions fires and repairs schedules.
func TestRightsOfSchedules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.schedule(aSchedule("a", "@every 1h"), -time.Second)
	moved := w.schedule(aSchedule("b", "@every 1h"), time.Hour)
	w.Do("ZREM", prefix+"job_pool", store.ScheduleID("b"))
	w.Do("LPUSH", prefix+"ready_queue:"+store.ScheduleTopic, store.ScheduleID("b"), "job")
	w.push("job", store.ScheduleTopic, 1e12)
	w.SetUser(redistest.Rights(t, "daemon"))
	w.server = New(w.UserPool(), w.options())
	check(t, w.server.Pass(t.Context()))
	w.expectReady("t", store.OccurrenceID("a", first))
	w.server = New(w.pool(), w.options())
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
		w.server = New(w.UserPool(), w.options())
		check(t, w.server.Pass(t.Context()))
		w.server = New(w.pool(), w.options())
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
