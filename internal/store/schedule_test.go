package store

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// aSchedule returns a schedule of topic t.
func aSchedule(name string) Schedule {
	return Schedule{Name: name, Spec: "@every 1m", Zone: "UTC", Topic: "t", Body: "body", Missed: MissedOnce, Overlap: OverlapAllow,
		Terms: Terms{Lifetime: 7 * 24 * time.Hour}}
}

// put stores a schedule whose next occurrence is at.
func (b *backend) put(t *testing.T, s Schedule, at time.Time) Scheduled {
	t.Helper()
	_, _, err := b.PutSchedule(t.Context(), s, at)
	check(t, err)
	return b.scheduled(t, s.Name)
}

// scheduled reads a schedule.
func (b *backend) scheduled(t *testing.T, name string) Scheduled {
	t.Helper()
	all := made(t, b.SchedulesOf(IDs{ScheduleID(name)}))
	if len(all.List) != 1 {
		t.Fatalf("there are %d schedules of name %s", len(all.List), name)
	}
	return all.List[0]
}

func TestPutSchedule(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t)
		at := b.time(60 * second)
		s := aSchedule("a b")
		s.Jitter, s.MaxAttempts, s.TTR, s.Source = 1500*time.Millisecond, 3, time.Minute, "file"
		got := b.put(t, s, at)
		revision := got.Revision
		want := Scheduled{Schedule: s, ID: "{a b}@schedule", Revision: revision, Next: at, Due: at}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		b.expect(t, redistest.State{Pool: []string{"{a b}@schedule"}, Buckets: map[string]string{"{a b}@schedule": "delayer:schedules @every 1m"}, Schedules: []string{"a b"}})

		later := b.time(90 * second)
		for _, c := range []struct {
			what    string
			change  func(*Schedule)
			changed bool
			next    time.Time
		}{
			{"nothing", func(*Schedule) {}, false, at},
			{"its body", func(s *Schedule) { s.Body = "other" }, true, at},
			{"its jitter", func(s *Schedule) { s.Jitter = 0 }, true, at},
			{"its spec", func(s *Schedule) { s.Spec = "@daily" }, true, later},
			{"its zone", func(s *Schedule) { s.Zone = "Asia/Shanghai" }, true, later.Add(time.Second)},
		} {
			c.change(&s)
			first := later
			if c.what == "its zone" {
				first = first.Add(time.Second)
			}
			next, changed, err := b.PutSchedule(t.Context(), s, first)
			if err != nil || changed != c.changed || !next.Equal(c.next) {
				t.Errorf("%s changes: %v, %v, %v, want %v, %v", c.what, next, changed, err, c.next, c.changed)
			}
			if got := b.scheduled(t, "a b"); !reflect.DeepEqual(got.Schedule, s) || !got.Due.Equal(c.next) || got.Revision > revision != c.changed {
				t.Errorf("%s changes: %+v", c.what, got)
			}
			revision = b.scheduled(t, "a b").Revision
		}
		b.do(t, "HSET", "delayer:job_bucket:{a b}@schedule", "next", "x")
		b.do(t, "HDEL", "delayer:job_bucket:{a b}@schedule", "zone")
		s.Spec = "@weekly"
		if got := b.put(t, s, later.Add(time.Second)); !reflect.DeepEqual(got.Schedule, s) || !got.Next.Equal(later.Add(time.Second)) || got.Old != nil {
			t.Errorf("one that could not be read: %+v", got)
		}
		b.do(t, "ZREM", "delayer:job_pool", "{a b}@schedule")
		if got := b.put(t, s, b.time(0)); !got.Due.Equal(later.Add(time.Second)) {
			t.Errorf("one that was moved by an old server is due at %v", got.Due)
		}
	})
}

// DueSchedules reads only the fields that firing needs.
func TestDueSchedules(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, waits("j", ScheduleTopic, -second))
		s := aSchedule("a")
		s.Missed, s.Jitter, s.Source, s.MaxAttempts = MissedAll, 1500*time.Millisecond, "file", 3
		b.put(t, s, b.time(60*second))
		check(t, b.PauseSchedule(t.Context(), "a", true))
		want := b.scheduled(t, "a")
		want.Due, want.Body, want.Overlap, want.Terms = time.Time{}, "", "", Terms{}
		read, err := b.DueSchedules(IDs{"j", ScheduleID("a"), ScheduleID("gone")}).Do(t.Context())
		if err != nil || len(read.List) != 1 || !reflect.DeepEqual(read.List[0], want) || want.Paused.IsZero() {
			t.Errorf("got  %+v, %v\nwant %+v", read.List, err, want)
		}
	})
}

// A job with a schedule's ID is left alone.
func TestNoSchedule(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for _, topic := range []string{"t", ScheduleTopic} {
			b.seed(t, waits("{a}@schedule", topic, -second))
			was := b.state(t)
			_, _, err := b.PutSchedule(t.Context(), aSchedule("a"), b.time(0))
			_, ran := b.RunSchedule(t.Context(), "a")
			for what, err := range map[string]error{"pause": b.PauseSchedule(t.Context(), "a", true), "remove": b.RemoveSchedule(t.Context(), "a", ""), "run": ran} {
				if err != ErrNotFound {
					t.Errorf("%s: %v", what, err)
				}
			}
			all, e := b.SchedulesOf(IDs{"{a}@schedule", "other"}).Do(t.Context())
			if err != ErrExists || e != nil || len(all.List) > 0 {
				t.Errorf("put: %v; read: %+v, %v", err, all.List, e)
			}
			if fired := b.fire(t, Firing{Scheduled: Scheduled{ID: "{a}@schedule"}}); fired != (Fired{}) {
				t.Errorf("fired: %+v", fired)
			}
			b.expect(t, was)
		}
	})
}

// RunNow never runs two jobs at a time either if the overlap is follow.
func TestRunScheduleFollows(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t)
		s := aSchedule("a")
		s.Overlap = OverlapFollow
		b.put(t, s, b.time(60*second))
		run := func() string {
			t.Helper()
			id, err := b.RunSchedule(t.Context(), "a")
			check(t, err)
			return id
		}
		first := run()
		for _, c := range []struct {
			what string
			do   func()
			ran  int64
		}{
			{"while it is ready", func() {}, 1},
			{"while it is reserved", func() { b.hold(t, "t", time.Minute) }, 2},
			{"while it is followed", func() {}, 2},
		} {
			c.do()
			if again, got := run(), b.scheduled(t, "a"); again != first || got.LastID != first || got.Ran != c.ran || got.Past[len(got.Past)-1].What != OccurrenceRunNow {
				t.Errorf("%s: %s, then it is %+v", c.what, again, got)
			}
		}
		if got := b.state(t); len(got.Ready) > 0 || len(got.Reserved) != 1 {
			t.Errorf("there are %+v", got)
		}
		made(t, b.Remove(removals(first)))
		if next := run(); next == first || b.scheduled(t, "a").LastID != next {
			t.Errorf("when it is gone: %s", next)
		}
	})
}

func TestRunSchedule(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t)
		was := b.put(t, aSchedule("a"), b.time(60*second))
		first, err := b.RunSchedule(t.Context(), "a")
		check(t, err)
		second, err := b.RunSchedule(t.Context(), "a")
		check(t, err)
		got := b.scheduled(t, "a")
		if first == second || !strings.HasPrefix(first, "{a}@now-") || got.LastID != second || got.Ran != 2 || !got.Next.Equal(was.Next) || !got.Due.Equal(was.Due) || got.Past[1].What != OccurrenceRunNow {
			t.Errorf("%s, %s, then it is %+v", first, second, got)
		}
		if state := b.state(t); !slices.Equal(state.Ready["t"], []string{first, second}) {
			t.Errorf("the jobs: %v", state.Ready)
		}
	})
}

// A server without schedules moves a schedule like any job; RepairSchedules puts it back.
func TestRepairSchedules(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, ready("job", ScheduleTopic), entry("ghost", ScheduleTopic))
		for _, name := range []string{"a", "b", "c", "d"} {
			b.put(t, aSchedule(name), b.time(-second))
		}
		b.do(t, "ZREM", "delayer:job_pool", ScheduleID("a"), ScheduleID("b"))
		b.do(t, "LPUSH", "delayer:ready_queue:"+ScheduleTopic, ScheduleID("a"))
		b.do(t, "DEL", "delayer:job_bucket:"+ScheduleID("d"))
		repaired, err := b.RepairSchedules(t.Context(), "", true)
		if err != nil || repaired.All != 4 || repaired.Last != "" || !slices.Equal(repaired.Names, []string{"a", "b"}) {
			t.Errorf("%+v, %v", repaired, err)
		}
		state := b.state(t)
		if len(state.Ready[ScheduleTopic]) != 1 || state.Ready[ScheduleTopic][0] != "job" || !slices.Equal(state.Schedules, []string{"a", "b", "c"}) {
			t.Errorf("then there are %v, %v", state.Ready, state.Schedules)
		}
		for _, name := range []string{"a", "b", "c"} {
			if got := b.scheduled(t, name); !got.Due.Equal(b.time(-second)) {
				t.Errorf("%s is due at %v", name, got.Due)
			}
		}
	}, alone)
}

// A schedule whose bucket has another type does not keep another one from being repaired.
func TestRepairBesideABrokenSchedule(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t)
		b.put(t, aSchedule("bad"), b.time(-second))
		b.put(t, aSchedule("moved"), b.time(-second))
		b.do(t, "SET", "delayer:job_bucket:"+ScheduleID("bad"), "text")
		b.do(t, "ZREM", "delayer:job_pool", ScheduleID("moved"))
		b.RepairSchedules(t.Context(), "", true) // its error is about the broken one
		if got := b.scheduled(t, "moved"); !got.Due.Equal(b.time(-second)) {
			t.Errorf("the other one is due at %v", got.Due)
		}
	}, alone)
}

// A moved schedule is in a queue. If that queue is empty, nothing is repaired unless all is set.
func TestRepairMovedSchedules(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t)
		for _, name := range []string{"a", "b"} {
			b.put(t, aSchedule(name), b.time(-second))
		}
		repair := func(all bool, want ...string) {
			t.Helper()
			repaired, err := b.RepairSchedules(t.Context(), "", all)
			if err != nil || repaired.All != 2 || repaired.Last != "" || !slices.Equal(repaired.Names, want) {
				t.Errorf("%+v, %v, want %q", repaired, err, want)
			}
		}
		repair(false)
		b.do(t, "ZREM", "delayer:job_pool", ScheduleID("b")) // and popped by a client
		repair(false)
		repair(true, "b")
		b.do(t, "ZREM", "delayer:job_pool", ScheduleID("a"))
		b.do(t, "LPUSH", "delayer:ready_queue:"+ScheduleTopic, ScheduleID("a"))
		repair(false, "a")
		if _, ready := b.state(t).Ready[ScheduleTopic]; ready {
			t.Error("it is in the queue still")
		}
		check(t, errOf(b.Pause(ScheduleTopic, time.Hour, "").Do(t.Context())))
		b.do(t, "ZREM", "delayer:job_pool", ScheduleID("b"))
		b.do(t, "LPUSH", "delayer:paused_queue:"+ScheduleTopic, ScheduleID("b"))
		repair(false, "b")
	}, alone)
}

// If no schedule was moved, RepairSchedules costs next to nothing, and with all set, a single check per schedule.
func TestRepairCost(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	b.seed(t)
	for n := range SchedulesPage {
		b.put(t, aSchedule(fmt.Sprint("s", n)), b.time(60*second))
	}
	for _, c := range []struct {
		all  bool
		most int
	}{{false, 6}, {true, 12}} {
		for range 2 { // the first round loads the script
			b.do(t, "CONFIG", "RESETSTAT")
			check(t, errOf(b.RepairSchedules(t.Context(), "", c.all)))
		}
		if calls := b.Calls(); calls > c.most {
			t.Errorf("all: %v: %d commands, want %d at most: %v", c.all, calls, c.most, b.AllCalls())
		}
	}
}

func TestSchedulesPages(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t)
		var want, got []string
		for n := range 7 {
			name := fmt.Sprint("s", n)
			want = append(want, name)
			b.put(t, aSchedule(name), b.time(60*second))
		}
		page := Schedules{}
		for again := true; again; again = page.Last != "" {
			var err error
			page, err = b.SchedulesBehind(page.Last, 3).Do(t.Context())
			check(t, err)
			for _, s := range page.List {
				got = append(got, s.Name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		all, err := b.Schedules(t.Context())
		if err != nil || len(all.List) != 7 || all.Now.Before(b.time(0)) {
			t.Errorf("all: %+v, %v", all, err)
		}
	})
}

// A query moves other due jobs, but no schedules: the jobs do not wait until the schedules have been fired.
func TestDueLeavesSchedules(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, waits("j", "t", -second))
		b.put(t, aSchedule("a"), b.time(-2*second))
		was := b.state(t)
		schedules := []Batch{batch(ScheduleTopic, ScheduleID("a"))}
		jobs, err := b.dueJobs(Query{Limit: 10})
		if err != nil || len(jobs.Moved) > 0 || !reflect.DeepEqual(jobs.Batches, append(schedules, batch("t", "j"))) {
			t.Errorf("%+v, %v", jobs, err)
		}
		b.expect(t, was)
		jobs, err = b.dueJobs(Query{Limit: 10, AtOnce: 10, Retry: time.Now()})
		if err != nil || len(jobs.Moved) != 1 || jobs.Moved[0].Topic != "t" || !reflect.DeepEqual(jobs.Batches, schedules) || jobs.Count != (Counts{Backlog: 1}) || jobs.More {
			t.Errorf("at once: %+v, %v", jobs, err)
		}
		was.Pool, was.Ready = []string{ScheduleID("a")}, map[string][]string{"t": {"j"}}
		b.expect(t, was)
	})
}

// ScheduleStates covers all schedules, page by page.
func TestScheduleStates(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t)
		var want ScheduleStates
		expect := func() {
			t.Helper()
			got, err := b.ScheduleStates(t.Context())
			check(t, err)
			late := got.Overdue
			if got.Overdue = 0; got != want || late != 0 {
				t.Errorf("they are %+v, %v late, want %+v", got, late, want)
			}
		}
		expect()
		for n := range SchedulesPage + 2 {
			_, _, err := b.PutSchedule(t.Context(), aSchedule(fmt.Sprint("s", n)), b.time(60*second))
			check(t, err)
		}
		want.Active = SchedulesPage + 2
		expect()
		b.do(t, "ZADD", "delayer:schedules", 0, "gone", 0, "broken")
		b.do(t, "SET", "delayer:job_bucket:{broken}@schedule", "no hash")
		expect()
		check(t, b.PauseSchedule(t.Context(), "s9", true))
		b.do(t, "HSET", "delayer:job_bucket:"+ScheduleID("s9"), "next", 1)
		b.do(t, "HSET", "delayer:job_bucket:"+ScheduleID("s8"), "next", "")
		want = ScheduleStates{Active: SchedulesPage, Paused: 1, Ended: 1}
		expect()
		b.do(t, "HSET", "delayer:job_bucket:"+ScheduleID("s99"), "next", b.time(-90*second).UnixMilli())
		if got, err := b.ScheduleStates(t.Context()); err != nil || got.Overdue < 89*time.Second || got.Overdue > 5*time.Minute {
			t.Errorf("one that is late: %+v, %v", got, err)
		}
	})
}
