package client_test

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
)

// hourly returns a schedule of topic t.
func hourly(name string) client.Schedule {
	return client.Schedule{Name: name, Every: time.Hour, Topic: "t", Body: "b"}
}

// scheduled returns the schedule with this name.
func (f *fixture) scheduled(name string) client.ScheduleInfo {
	f.TB.Helper()
	all, err := f.Schedules().List(f.TB.Context())
	check(f.TB, err)
	for _, s := range all {
		if s.Name == name {
			return s
		}
	}
	f.TB.Fatalf("there is no schedule %s", name)
	return client.ScheduleInfo{}
}

// The life of a schedule, from its first job to its end.
func TestSchedule(t *testing.T) {
	t.Parallel()
	f := start(t)
	ctx := t.Context()
	s := client.Schedule{Name: "tick", Every: 30 * time.Millisecond, Topic: "t", Body: "b", Options: client.JobOptions{MaxAttempts: 3, Lease: time.Minute}}
	next, err := f.Schedules().Set(ctx, s)
	check(t, err)
	f.serve()
	for n := range 3 {
		d, err := f.Reserve(ctx, 0, "t")
		check(t, err)
		if want := "{tick}@" + next.UTC().Format("2006-01-02T15:04:05.999Z07:00"); n == 0 && d.ID != want && f.scheduled("tick").Late == 0 {
			t.Errorf("the first job is %s, want %s", d.ID, want)
		}
		if d.Body != "b" || d.MaxAttempts != 3 || d.Lease() != time.Minute {
			t.Errorf("the job is %+v", d)
		}
		check(t, d.Ack(ctx))
	}
	check(t, f.Schedules().Pause(ctx, "tick"))
	until(t, "moments pass without jobs", func() bool { return f.scheduled("tick").WhilePaused >= 2 })
	got := f.scheduled("tick")
	if got.Paused.IsZero() || got.Past[len(got.Past)-1].Result != "paused" || got.Past[0].Result == "paused" && got.WhilePaused < 10 {
		t.Errorf("a paused one is %+v", got)
	}
	jobs := got.Jobs
	id, err := f.Schedules().Run(ctx, "tick")
	check(t, err)
	if job, err := f.Get(ctx, id); err != nil || job.State != client.StateReady || f.scheduled("tick").Jobs != jobs+1 {
		t.Errorf("a job at once: %+v, %v", job, err)
	}
	check(t, f.Schedules().Resume(ctx, "tick"))
	until(t, "it goes on", func() bool { return f.scheduled("tick").Jobs > jobs+1 })
	for _, want := range []bool{true, false} {
		if was, err := f.Schedules().Remove(ctx, "tick"); err != nil || was != want {
			t.Errorf("unschedule: %v, %v, want %v", was, err, want)
		}
	}
	for what, err := range map[string]error{"pause": f.Schedules().Pause(ctx, "tick"), "resume": f.Schedules().Resume(ctx, "tick"), "run": errOf(f.Schedules().Run(ctx, "tick"))} {
		if !errors.Is(err, client.ErrNotFound) || !strings.Contains(err.Error(), "no such schedule") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if all, err := f.Schedules().List(ctx); err != nil || len(all) > 0 {
		t.Errorf("then there are %+v, %v", all, err)
	}
}

// A schedule is read as it was made, and can be made again from the result.
func TestSchedulesAreRead(t *testing.T) {
	f := start(t)
	ctx := t.Context()
	full := client.Schedule{
		Name: "full", Cron: "30 2 * * *", Zone: "Europe/Berlin", Topic: "t", Missed: "all", Overlap: "skip", Jitter: 2 * time.Second,
		Options: client.JobOptions{EmptyBody: true, ExpireAfter: time.Hour, MaxAttempts: 2, Lease: time.Minute},
	}
	next, err := f.Schedules().Set(ctx, full)
	check(t, err)
	_, err = f.Schedules().Set(ctx, hourly("every"))
	check(t, err)
	all, err := f.Schedules().List(ctx)
	check(t, err)
	if len(all) != 2 || all[0].Name != "every" || all[0].Every != time.Hour || all[0].Cron != "" || all[0].Zone != "UTC" || all[0].Missed != "once" || all[0].Overlap != "allow" || all[0].Options.ExpireAfter != store.DefaultLifetime {
		t.Errorf("got %+v", all)
	}
	got := all[1]
	if !got.Next.Equal(next) {
		t.Errorf("got %+v", got)
	}
	before := f.State()
	for _, s := range all {
		_, err := f.Schedules().Set(ctx, s.Schedule)
		check(t, err)
	}
	f.Expect(before)
	if !reflect.DeepEqual(got.Schedule, full) {
		t.Errorf("got  %+v\nwant %+v", got.Schedule, full)
	}
}

// The next occurrence is computed by Redis's clock, not by the host's, and needs no server.
func TestNextOccurrence(t *testing.T) {
	m := miniredis.RunT(t)
	c := clienttest.On(&redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", m.Addr()) }})
	defer c.Close()
	for _, c2 := range []struct {
		now      string
		schedule client.Schedule
		want     string
	}{
		{"2031-03-29T01:30:00Z", client.Schedule{Cron: "30 2 * * *", Zone: "Europe/Berlin"}, "2031-03-30T03:00:00+02:00"}, // exactly at an occurrence: the next one counts
		{"2031-03-29T01:29:59.9999Z", client.Schedule{Cron: "30 2 * * *", Zone: "Europe/Berlin"}, "2031-03-30T03:00:00+02:00"},
		{"2031-03-29T01:29:59Z", client.Schedule{Cron: "30 2 * * *"}, "2031-03-29T02:30:00Z"},
		{"2031-03-29T01:29:59.1234Z", client.Schedule{Every: 90 * time.Second}, "2031-03-29T01:31:29.124Z"},
		{"1999-12-31T23:59:59Z", client.Schedule{Cron: "@hourly"}, "2000-01-01T00:00:00Z"},
	} {
		now, err := time.Parse(time.RFC3339, c2.now)
		check(t, err)
		m.FlushAll()
		m.SetTime(now)
		s := c2.schedule
		s.Name, s.Topic, s.Body = "a", "t", "b"
		next, err := c.Schedules().Set(t.Context(), s)
		if got := next.Format("2006-01-02T15:04:05.999Z07:00"); err != nil || got != c2.want {
			t.Errorf("at %s %q: %s, %v, want %s", c2.now, s.Cron, got, err, c2.want)
		}
	}
}

func TestScheduleInvalid(t *testing.T) {
	c := clienttest.On(&redis.Pool{DialContext: func(context.Context) (redis.Conn, error) {
		t.Error("Redis was asked")
		return nil, errors.New("no Redis")
	}})
	defer c.Close()
	ctx := t.Context()
	with := func(change func(*client.Schedule)) error {
		s := hourly("a")
		change(&s)
		_, err := c.Schedules().Set(ctx, s)
		_, set := c.Schedules().SetAll(ctx, "me", []client.Schedule{hourly("good"), s})
		if !errors.Is(set, client.ErrInvalid) {
			t.Errorf("set: %v", set)
		}
		return err
	}
	cron := func(spec string) error { return with(func(s *client.Schedule) { s.Cron, s.Every = spec, 0 }) }
	for want, err := range map[string]error{
		`invalid cron: "0 25 * * *", hour, "25" at character 3: want 0`:          cron("0 25 * * *"),
		"invalid cron: it is empty, and so is every":                             cron(""),
		"invalid every: it has no meaning together with cron":                    with(func(s *client.Schedule) { s.Cron = "@daily" }),
		"invalid every: 30ns is less than a millisecond":                         with(func(s *client.Schedule) { s.Every = 30 }),
		`invalid cron: "@every 1ms"`:                                             with(func(s *client.Schedule) { s.Every = time.Millisecond }),
		`invalid cron: "@every -1h0m0s"`:                                         with(func(s *client.Schedule) { s.Every = -time.Hour }),
		"invalid name: it is empty":                                              with(func(s *client.Schedule) { s.Name = "" }),
		"invalid name: want no braces":                                           with(func(s *client.Schedule) { s.Name = "a}b" }),
		"invalid name: want no braces and no control":                            with(func(s *client.Schedule) { s.Name = "a\nb" }),
		"invalid name: it has 201 bytes: want 200":                               with(func(s *client.Schedule) { s.Name = strings.Repeat("a", 201) }),
		`invalid zone: "Mars/Olympus" is not known here: want a name`:            with(func(s *client.Schedule) { s.Zone = "Mars/Olympus" }),
		`invalid zone: "Local" is not known here`:                                with(func(s *client.Schedule) { s.Zone = "Local" }),
		"invalid topic: it is empty":                                             with(func(s *client.Schedule) { s.Topic = "" }),
		"invalid topic: it is that of schedules":                                 with(func(s *client.Schedule) { s.Topic = "delayer:schedules" }),
		"invalid body: it is empty":                                              with(func(s *client.Schedule) { s.Body = "" }),
		"invalid jitter: -1s is not from 0":                                      with(func(s *client.Schedule) { s.Jitter = -time.Second }),
		"invalid jitter: 30ns is less than a millisecond":                        with(func(s *client.Schedule) { s.Jitter = 30 }),
		`invalid missed: "twice" is not one of ["once" "skip" "all"]`:            with(func(s *client.Schedule) { s.Missed = "twice" }),
		`invalid overlap: "never" is not one of ["allow" "skip" "follow"]`:       with(func(s *client.Schedule) { s.Overlap = "never" }),
		"invalid max attempts: -1":                                               with(func(s *client.Schedule) { s.Options.MaxAttempts = -1 }),
		"invalid owner: it is empty":                                             errOf(c.Schedules().SetAll(ctx, "", nil)),
		`set schedules "me": "a": invalid name: there are two schedules with it`: errOf(c.Schedules().SetAll(ctx, "me", []client.Schedule{hourly("a"), hourly("a")})),
		"run schedule: invalid name: it is empty":                                errOf(c.Schedules().Run(ctx, "")),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// SetAll replaces the owner's schedules; other owners' schedules stay.
func TestSetAllSchedules(t *testing.T) {
	f := start(t)
	ctx := t.Context()
	set := func(owner string, schedules []client.Schedule, want ...string) {
		t.Helper()
		changed, err := f.Schedules().SetAll(ctx, owner, schedules)
		if err != nil || !slices.Equal(changed, want) {
			t.Errorf("%s: changed %v, %v, want %v", owner, changed, err, want)
		}
	}
	owners := func(want map[string]string) {
		t.Helper()
		all, err := f.Schedules().List(ctx)
		check(t, err)
		got := map[string]string{}
		for _, s := range all {
			got[s.Name] = s.Owner
		}
		if !maps.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	_, err := f.Schedules().Set(ctx, hourly("free"))
	check(t, err)
	set("other", []client.Schedule{hourly("theirs")}, "theirs")
	set("me", []client.Schedule{hourly("a"), hourly("b"), hourly("c")}, "a", "b", "c")
	next := f.scheduled("b").Next
	check(t, f.Schedules().Pause(ctx, "b"))
	changed := hourly("b")
	changed.Body = "other"
	set("me", []client.Schedule{hourly("a"), changed, hourly("d")}, "b", "d", "c")
	if b := f.scheduled("b"); !b.Next.Equal(next) || b.Paused.IsZero() || b.Body != "other" {
		t.Errorf("one whose body has changed is %+v", b)
	}
	owners(map[string]string{"a": "me", "b": "me", "d": "me", "free": "", "theirs": "other"})
	set("me", []client.Schedule{hourly("a"), changed, hourly("d")})
	_, err = f.Schedules().Set(ctx, hourly("a")) // it has no owner from now on
	check(t, err)
	set("me", nil, "b", "d")
	owners(map[string]string{"a": "", "free": "", "theirs": "other"})
	if changed, err := f.Schedules().SetAll(ctx, "me", []client.Schedule{hourly("new"), {Name: "bad"}}); !errors.Is(err, client.ErrInvalid) || changed != nil {
		t.Errorf("with one that is wrong: %v, %v", changed, err)
	}
	owners(map[string]string{"a": "", "free": "", "theirs": "other"})
}

// A paused topic misses no occurrence: its jobs are there when the topic is resumed.
func TestScheduleOfAPausedTopic(t *testing.T) {
	f := start(t)
	ctx := t.Context()
	f.serve()
	check(t, f.Pause(ctx, "t", client.PauseOptions{}))
	check(t, errOf(f.Schedules().Set(ctx, client.Schedule{Name: "tick", Every: 30 * time.Millisecond, Topic: "t", Body: "b"})))
	_, err := f.Schedules().Run(ctx, "tick")
	check(t, err)
	until(t, "moments pass", func() bool { return f.scheduled("tick").Jobs >= 4 })
	if _, err := f.Pop(ctx, "t"); !errors.Is(err, client.ErrEmpty) || f.scheduled("tick").WhilePaused > 0 {
		t.Errorf("while the topic is paused: %v, %+v", err, f.scheduled("tick"))
	}
	check(t, errOf(f.Schedules().Remove(ctx, "tick")))
	check(t, errOf(f.Resume(ctx, "t")))
	if jobs := clienttest.All(t, f.Client, clienttest.Popped("t", 250)); len(jobs) < 4 {
		t.Errorf("then there are %d jobs", len(jobs))
	}
}
