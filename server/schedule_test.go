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
	w.server = serverOn(w.pool(), 1, o)
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

// The hook is told what was fired. Lateness counts for the last occurrence with a job; the overlapping ones have none.
func TestLatenessOfSchedulesThatOverlap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := newCounter()
	w.server.options.Hooks = o.hooks()
	s := aSchedule("a", "@every 1h")
	s.Missed, s.Overlap = store.MissedAll, store.OverlapSkip
	w.schedule(s, -3*time.Hour-time.Second)
	w.pass()
	if len(o.fired) != 1 || o.fired[0] != (Fired{Schedule: "a", Topic: "t", Jobs: 1, Overlapped: 3, After: o.fired[0].After}) || o.fired[0].After.Truncate(time.Hour) != 3*time.Hour {
		t.Errorf("told of %+v, want one job that was three hours late", o.fired)
	}
}

// Only Redis's clock counts, even if the host's clock is years off, as here.
func TestSchedulesGoByRedisClock(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", m.Addr()) }}
	defer pool.Close()
	zone, err := time.LoadLocation("Europe/Berlin")
	check(t, err)
	s := serverOn(pool, 1, Options{})
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

type scheduleChange struct{ at, spec, zone, first string }

var scheduleChanges = map[string]struct {
	change func(*store.Schedule)
	spec   string
	next   string // of the new spec
	more   []scheduleChange
	now    string
	want   []string
	notRun store.NotRun
	then   string
}{
	"the spec": {nil, "0 7 * * *", "07:00", []scheduleChange{{"07:10", "0 7,19 * * *", "UTC", "19:00"}}, "07:11", []string{"07:00"}, store.NotRun{}, "19:00"},
	"the zone": {nil, "0 7 * * *", "07:00", []scheduleChange{{"07:10", "0 7 * * *", "America/New_York", "11:00"}}, "07:11", []string{"07:00"}, store.NotRun{}, "11:00"},
	"both are overdue": {func(s *store.Schedule) { s.Missed = store.MissedAll }, "0 7 * * *", "07:00", []scheduleChange{{"07:10", "30 * * * *", "UTC", "07:30"}}, "09:00",
		[]string{"07:00", "07:30", "08:30"}, store.NotRun{}, "09:30"},
	"of both the last one": {nil, "0 7 * * *", "07:00", []scheduleChange{{"07:10", "30 * * * *", "UTC", "07:30"}}, "09:00", []string{"08:30"}, store.NotRun{Late: 2}, "09:30"},
	"twice": {func(s *store.Schedule) { s.Missed = store.MissedAll }, "*/30 * * * *", "07:00",
		[]scheduleChange{{"07:40", "45 * * * *", "UTC", "07:45"}, {"08:40", "@every 7h", "UTC", "15:40"}}, "08:41", []string{"07:00", "07:30", "07:45"}, store.NotRun{}, "15:40"},
	"twice, nothing is overdue by the second": {nil, "0 7 * * *", "07:00", []scheduleChange{{"07:40", "0 20 * * *", "UTC", "20:00"}, {"08:40", "0 21 * * *", "UTC", "21:00"}}, "08:41",
		[]string{"07:00"}, store.NotRun{}, "21:00"},
	"they are skipped": {func(s *store.Schedule) { s.Missed = store.MissedSkip }, "0 7 * * *", "07:00", []scheduleChange{{"07:10", "0 19 * * *", "UTC", "19:00"}}, "07:11",
		nil, store.NotRun{Late: 1}, "19:00"},
	"one that could not be read":  {nil, "* * * *", "07:00", []scheduleChange{{"07:10", "0 19 * * *", "UTC", "19:00"}}, "07:11", nil, store.NotRun{}, "19:00"},
	"nothing is overdue":          {nil, "0 7 * * *", "07:00", []scheduleChange{{"06:50", "0 8 * * *", "UTC", "08:00"}}, "07:11", nil, store.NotRun{}, "08:00"},
	"an occurrence at the change": {nil, "0 7 * * *", "07:00", []scheduleChange{{"07:10", "10 * * * *", "UTC", "07:10"}}, "07:11", []string{"07:10"}, store.NotRun{Late: 1}, "08:10"},
}

// When the spec or zone changes, overdue occurrences follow Missed; later ones follow the new spec. No server ran
// meanwhile.
func TestChangedScheduleKeepsWhatIsOverdue(t *testing.T) {
	t.Parallel()
	for name, c := range scheduleChanges {
		t.Run(name, func(t *testing.T) {
			m := miniredis.RunT(t)
			pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", m.Addr()) }}
			defer pool.Close()
			at := func(clock string) time.Time {
				at, err := time.Parse(time.RFC3339, "2031-06-02T"+clock+":00Z")
				check(t, err)
				return at
			}
			server := serverOn(pool, 1, Options{})
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
