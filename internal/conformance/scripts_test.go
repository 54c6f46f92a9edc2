package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// topic is the topic of the scripts' jobs.
const topic = "topic"

// scripts runs each script of the store once and checks its effect.
var scripts = []line{
	{"ack", func(s *stage) {
		s.allDone(s.store.Ack([]store.LeaseRef{s.reserved("a")}))
		s.expectStored("a", "")
	}},
	{"adopt", func(s *stage) {
		s.stored("a", time.Hour)
		aside := s.putInTransit("a")
		other := store.New(s.pool, s.prefix+"{other}:")
		adopted, err := other.Adopt(s.store, aside.Serial, aside.Jobs).Do(s.Context())
		expect(s, "what is adopted", adopted.Stored, err, 1)
		job, err := other.Get(s.Context(), "a")
		expect(s, "its body", job.Body, err, "body of a")
	}},
	{"browse", func(s *stage) {
		s.letter("a")
		s.expectPage("dead", "a")
		s.stored("a", time.Hour)
		s.expectPage("waiting", "a")
		s.stored("a", 0)
		s.expectPage("ready", "a")
	}},
	{"bury", func(s *stage) {
		s.letter("a")
		s.expectStored("a", "dead")
	}},
	{"count_due", func(s *stage) {
		s.stored("a", time.Hour)
		now, _, err := s.store.CountDue(s.Context(), nil)
		check(s, err)
		_, counts, err := s.store.CountDue(s.Context(), []store.Seconds{{From: now, Until: now + 60}, {From: now + 60, Until: now + 7200}})
		expect(s, "what falls due", counts, err, []int{0, 1})
	}},
	{"drop", func(s *stage) {
		s.allDone(s.store.Push([]store.Delayed{{Job: store.Job{ID: "a", Topic: topic, Body: "b"}, Due: store.Due{After: time.Millisecond}, Terms: store.Terms{Lifetime: time.Millisecond}}}))
		due := s.awaitDue(func(d store.DueJobs) bool { return len(d.Orphans) > 0 })
		dropped, err := s.store.Drop(due.Orphans, due.Now, due.Now.Add(time.Minute)).Do(s.Context())
		expect(s, "what is dropped", len(dropped.IDs), err, 1)
	}},
	{"drop_dead", func(s *stage) {
		s.letter("a")
		n, err := s.store.DropDead(s.Context(), topic, []string{"a", "b"}, time.Time{})
		expect(s, "the dead letters", n, err, 1)
		s.expectStored("a", "")
	}},
	{"due", func(s *stage) {
		s.stored("a", time.Millisecond)
		s.awaitDue(func(d store.DueJobs) bool { return d.Count.Total() == 1 && len(d.Batches) == 1 })
		d, err := s.store.Due(store.Query{Limit: 10, AtOnce: 10, Retry: time.Now()}).Do(s.Context())
		expect(s, "what is moved at once", len(d.Moved), err, 1)
		s.expectStored("a", "ready")
	}},
	{"expire_dead", func(s *stage) {
		s.letter("a")
		redistest.Until(s, "the dead letter is too old", func() bool {
			expired, _, err := s.store.ExpireDead(s.Context(), time.Millisecond, 0, store.DeadPosition{})
			check(s, err)
			return len(expired) == 1
		})
		s.expectStored("a", "")
	}},
	{"extend", func(s *stage) {
		longer := &store.Extension{LeaseRef: s.reserved("a"), Lease: 2 * time.Hour}
		before := s.expectStored("a", "reserved").Due
		s.allDone(s.store.Extend([]*store.Extension{longer}))
		if end := s.expectStored("a", "reserved").Due; end.Sub(before) < 30*time.Minute || end.UnixMicro() != longer.End {
			s.Errorf("the lease ends at %v, as Extend says at %d, and ended at %v", end, longer.End, before)
		}
	}},
	{"fire", func(s *stage) {
		scheduled := s.scheduled("a", -time.Second)
		occurrence := store.FiredOccurrence{At: scheduled.Next, What: store.OccurrenceRan, Due: scheduled.Next}
		next := scheduled.Next.Add(time.Hour)
		fired, err := s.store.Fire([]store.Firing{{Scheduled: scheduled, Upcoming: next, Occurrences: []store.FiredOccurrence{occurrence}}}, next, time.Second).Do(s.Context())
		expect(s, "what is fired", fired.Fired, err, []store.Fired{{Done: true, Ran: 1}})
		s.expectStored(store.OccurrenceID("a", scheduled.Next), "ready")
		s.expectStored(scheduled.ID, "waiting")
	}},
	{"forecast", func(s *stage) {
		s.reserved("reserved")
		s.stored("a", time.Hour)
		_, counts, err := s.store.Forecast(s.Context(), time.Time{}, []int64{0, 60_000, 7_200_000})
		expect(s, "what falls due", counts, err, []store.DueCount{{}, {Entries: 2, Read: 2, Leases: 1}})
	}},
	{"group", func(s *stage) {
		for i, want := range []store.Told{{Did: store.DidCreate}, {Did: store.DidAdd}} {
			push := store.Delayed{Job: store.Job{ID: store.GroupTag(topic, "k"), Topic: topic, Body: fmt.Sprint(i)}, Due: store.Due{After: time.Hour}, Told: new(store.Told)}
			push.Terms = store.Terms{Lifetime: time.Hour, Policy: store.Replace, Group: store.Group{Longest: time.Hour}}
			s.allDone(s.store.Push([]store.Delayed{push}))
			want.Into = push.Told.Into
			expect(s, "what a push did", *push.Told, nil, want)
			if job := s.expectStored(want.Into, "waiting"); job.Body != []string{"[0]", "[0,1]"}[i] {
				s.Errorf("got %+v", job)
			}
		}
	}},
	{"fsck_keys", func(s *stage) {
		s.reserved("a")
		checked, err := s.store.FsckKeys([]store.FoundKey{{Kind: "bucket", Rest: "a"}}, false).Do(s.Context())
		expect(s, "what is wrong with a key", len(checked.Faults), err, 0)
	}},
	{"fsck_lost", func(s *stage) {
		s.stored("a", time.Hour)
		page, err := s.store.FsckLost([]store.Lost{{ID: "a"}}, store.LostLook).Do(s.Context())
		expect(s, "the lost jobs", len(page.Jobs), err, 0)
	}},
	{"fsck_pool", func(s *stage) {
		ref := s.reserved("a")
		page, err := s.store.FsckPool("0", 10, false, true).Do(s.Context())
		expect(s, "the leases", page.Leases, err, []store.Leases{{Topic: topic, Count: 1, Newest: ref.Token}})
		expect(s, "what is wrong with the pool", len(page.Faults), nil, 0)
	}},
	{"fsck_queue", func(s *stage) {
		s.stored("a", 0)
		page, err := s.store.FsckQueue(topic, false, store.QueuePlace{}, 10, false).Do(s.Context())
		expect(s, "the IDs in the queue", page.IDs, err, []string{"a"})
	}},
	{"fsck_reserved", func(s *stage) {
		s.reserved("a")
		repaired, err := s.store.FsckReserved([]store.ReservedCount{{Topic: topic, Kept: "1", Leases: 2}}).Do(s.Context())
		expect(s, "the topics whose number was wrong", repaired, err, []string{topic})
	}},
	{"fsck_set", func(s *stage) {
		s.letter("a")
		page, err := s.store.FsckSet(store.DeadSet, topic, "0", 10, false, true).Do(s.Context())
		expect(s, "the dead letters", page.IDs, err, []string{"a"})
	}},
	{"fsck_twice", func(s *stage) {
		s.stored("a", 0)
		page, err := s.store.FsckTwice(topic, []string{"a"}, false).Do(s.Context())
		expect(s, "the IDs that are there twice", len(page.Faults), err, 0)
	}},
	{"get", func(s *stage) {
		s.stored("a", time.Hour)
		if job := s.expectStored("a", "waiting"); job.Topic != topic || job.Body != "body of a" || job.TTL < time.Hour {
			s.Errorf("got %+v", job)
		}
	}},
	{"heartbeat", func(s *stage) {
		beat, err := s.beat("one")
		check(s, err)
		if beat.Started.IsZero() {
			s.Error("it doesn't say since when the server runs")
		}
		beat, err = s.beat("two")
		expect(s, "the other servers", len(beat.Others), err, 1)
	}},
	{"history", func(s *stage) {
		_, err := s.beat("one")
		check(s, err)
		past, err := s.store.History(s.Context())
		expect(s, "the history before now", len(past), err, 0)
	}},
	{"layout", func(s *stage) {
		divided := func(partitions int) error {
			c := client.New(s.pool, client.WithPrefix(s.prefix+"layout:"), client.WithPartitions(partitions))
			defer c.Close()
			_, err := c.Stats(s.Context())
			return err
		}
		check(s, divided(2))
		if err := divided(3); !errors.As(err, new(*fleet.LayoutError)) {
			s.Errorf("another number of partitions: %v", err)
		}
	}},
	{"keep_paused", func(s *stage) {
		_, err := s.store.Pause(topic, time.Millisecond, "").Do(s.Context())
		check(s, err)
		redistest.Until(s, "the pause is over", func() bool {
			kept, err := s.store.KeepPaused("0", 1).Do(s.Context())
			check(s, err)
			return len(kept.Ended) == 1 && kept.Ended[0] == topic
		})
	}},
	{"end_transit", func(s *stage) {
		s.stored("a", time.Hour)
		_, err := s.store.EndTransit(s.putInTransit("a").Serial, 0).Do(s.Context())
		check(s, err)
		aside, err := s.store.PutInTransit(nil, false).Do(s.Context())
		expect(s, "what is set aside", len(aside.Jobs), err, 0)
	}},
	{"limit", func(s *stage) {
		s.stored("a", 0)
		s.stored("b", 0)
		check(s, (&fleet.Fleet{Stores: []*store.Store{s.store}}).SetLimit(s.Context(), topic, store.Limit{Concurrency: 1}))
		reserve := store.Wanted{Topics: []string{topic}, N: 2}
		got, err := s.store.Reserve(reserve, store.Reservation{Lease: time.Hour}).Do(s.Context())
		expect(s, "how many are reserved", len(got.Jobs), err, 1)
		check(s, (&fleet.Fleet{Stores: []*store.Store{s.store}}).SetLimit(s.Context(), topic, store.Limit{}))
		got, err = s.store.Reserve(reserve, store.Reservation{Lease: time.Hour}).Do(s.Context())
		expect(s, "how many are reserved without a limit", len(got.Jobs), err, 1)
	}},
	{"poll", func(s *stage) {
		s.expectLook("waiter", 0, true)
		s.stored("a", 0)
		s.expectLook("", 1, false)
	}},
	{"members", func(s *stage) { // part of a migration
		jobs := func(l fleet.Layout) *fleet.Fleet { return l.Open(s.pool, s.prefix+"members:") }
		before := jobs(fleet.Layout{Partitions: 2}) // some IDs belong to other partitions in a layout of three
		for n := range 10 {
			id := fmt.Sprint(n)
			s.allDone(before.Of(id).Push([]store.Delayed{{Job: store.Job{ID: id, Topic: topic, Body: "b"}, Due: store.Due{After: time.Hour}, Terms: store.Terms{Lifetime: time.Hour}}}))
		}
		now := jobs(fleet.Layout{Partitions: 3, Previous: 2})
		_, err := now.Migrate(s.Context(), func(fleet.Migrated) {})
		check(s, err)
		for n := range 10 {
			job, err := now.Of(fmt.Sprint(n)).Get(s.Context(), fmt.Sprint(n))
			expect(s, "the state", job.State, err, "waiting")
		}
	}},
	{"list_schedules", func(s *stage) {
		none, err := s.store.ListSchedules(s.Context(), "one", []string{"a", "b"})
		expect(s, "what other files have", len(none), err, 0)
		others, err := s.store.ListSchedules(s.Context(), "two", []string{"b", "c"})
		expect(s, "what other files have", others["a"] && others["b"] && !others["c"], err, true)
	}},
	{"repair_schedules", func(s *stage) {
		scheduled := s.scheduled("a", time.Hour)
		check(s, s.store.Reschedule(s.Context(), scheduled.ID, 0)) // puts the ID into a queue, like an old server
		repaired, err := s.store.RepairSchedules(s.Context(), "", true)
		expect(s, "what is put back", repaired.Names, err, []string{"a"})
		s.expectStored(scheduled.ID, "waiting")
	}},
	{"move", func(s *stage) {
		s.stored("a", time.Millisecond)
		due := s.awaitDue(func(d store.DueJobs) bool { return len(d.Batches) == 1 })
		moved, err := s.store.Move(due.Batches[0], due.Now, due.Now, due.Now.Add(time.Minute)).Do(s.Context())
		expect(s, "what is moved", len(moved.IDs), err, 1)
		s.expectStored("a", "ready")
	}},
	{"pause", func(s *stage) {
		s.stored("a", 0)
		_, err := s.store.Pause(topic, 0, "").Do(s.Context())
		check(s, err)
		s.stored("b", 0)
		popped, err := s.store.Pop(store.Wanted{Topics: []string{topic}, N: 2}).Do(s.Context())
		expect(s, "how many are popped", len(popped.Jobs), err, 0)
	}},
	{"paused", func(s *stage) {
		_, err := s.store.Pause(topic, time.Hour, "note").Do(s.Context())
		check(s, err)
		paused, err := s.store.Paused(s.Context())
		check(s, err)
		if len(paused) != 1 || paused[0].Topic != topic || paused[0].Note != "note" || paused[0].Until.Sub(paused[0].Since) != time.Hour {
			s.Errorf("got %+v", paused)
		}
	}},
	{"pause_schedule", func(s *stage) {
		s.scheduled("a", time.Hour)
		check(s, s.store.PauseSchedule(s.Context(), "a", true))
		expect(s, "whether it is paused", !s.readSchedule("a").Paused.IsZero(), nil, true)
	}},
	{"pop", func(s *stage) {
		s.stored("a", 0)
		popped, err := s.store.Pop(store.Wanted{Topics: []string{topic}, N: 1}).Do(s.Context())
		expect(s, "what is popped", popped.Jobs, err, []store.Job{{ID: "a", Topic: topic, Body: "body of a"}})
		s.expectStored("a", "")
	}},
	{"purge", func(s *stage) {
		s.stored("a", 0)
		deleted, _, err := s.store.Purge(s.Context(), topic, 10)
		expect(s, "what is deleted", deleted, err, 1)
		s.expectStored("a", "")
	}},
	{"push", func(s *stage) {
		s.stored("a", time.Hour)
		s.stored("b", 0)
		s.expectStored("a", "waiting")
		s.expectStored("b", "ready")
	}},
	{"register", func(s *stage) {
		me := store.Program{Host: "host", Name: "program", PID: 7}
		store.Register(s.Context(), []*store.Store{s.store}, "me", me)
		found, err := s.store.Programs(s.Context(), []string{"me"})
		expect(s, "which program it is", found, err, map[string]store.Program{"me": me})
	}},
	{"register_dead", func(s *stage) {
		s.letter("a")
		next, err := s.store.RegisterDead(s.Context(), store.Position{})
		expect(s, "where to go on", next, err, store.Position{})
	}},
	{"rehearse", func(s *stage) {
		rehearsed, err := s.store.Rehearse("no job").Do(s.Context())
		check(s, err)
		check(s, rehearsed.CantPublish)
		expect(s, "what it lacks", len(rehearsed.Lacking), nil, 0)
	}},
	{"remove", func(s *stage) {
		for _, delay := range []time.Duration{0, time.Hour} {
			s.stored("a", delay)
			s.allDone(s.store.Remove("a"))
			s.expectStored("a", "")
		}
	}},
	{"requeue", func(s *stage) {
		s.letter("a")
		errs, err := s.store.Requeue(s.Context(), []string{"a"}, time.Hour)
		expect(s, "the errors", errs, err, []error{nil})
		s.expectStored("a", "ready")
	}},
	{"reschedule", func(s *stage) {
		s.stored("a", time.Hour)
		check(s, s.store.Reschedule(s.Context(), "a", 0))
		s.expectStored("a", "ready")
		check(s, s.store.Reschedule(s.Context(), "a", time.Hour))
		s.expectStored("a", "waiting")
	}},
	{"reserve", func(s *stage) {
		s.reserved("a")
		if job := s.expectStored("a", "reserved"); job.Attempts != 1 || job.Token == 0 {
			s.Errorf("it has %d attempts and the token %d", job.Attempts, job.Token)
		}
	}},
	{"resume", func(s *stage) {
		_, err := s.store.Pause(topic, 0, "").Do(s.Context())
		check(s, err)
		s.stored("a", 0)
		was, err := (&fleet.Fleet{Stores: []*store.Store{s.store}}).Resume(s.Context(), topic)
		expect(s, "whether it was paused", was, err, true)
		popped, err := s.store.Pop(store.Wanted{Topics: []string{topic}, N: 2}).Do(s.Context())
		expect(s, "how many are popped", len(popped.Jobs), err, 1)
	}},
	{"retry", func(s *stage) {
		s.allDone(s.store.Retry([]store.Returned{{LeaseRef: s.reserved("a"), Delay: time.Hour, Error: "why"}}))
		if job := s.expectStored("a", "waiting"); job.Error != "why" {
			s.Errorf("its error is %q", job.Error)
		}
	}},
	{"run_schedule", func(s *stage) {
		s.scheduled("a", time.Hour)
		id, err := s.store.RunSchedule(s.Context(), "a")
		check(s, err)
		s.expectStored(id, "ready")
	}},
	{"sample", func(s *stage) {
		s.stored("a", time.Hour)
		sample, err := s.store.Sample(s.Context(), 10, 0, 10, 0)
		expect(s, "the sample", sample.Jobs, err, map[string]int{topic: 1})
	}},
	{"schedule", func(s *stage) {
		first := s.scheduled("a", time.Hour)
		expect(s, "its due time", first.Due, nil, first.Next)
	}},
	{"schedules", func(s *stage) {
		s.scheduled("a", time.Hour)
		check(s, s.store.PauseSchedule(s.Context(), s.scheduled("b", time.Hour).Name, true))
		all, err := s.store.Schedules(s.Context())
		expect(s, "the schedules", len(all.List), err, 2)
		states, err := s.store.ScheduleStates(s.Context())
		expect(s, "their states", states, err, store.ScheduleStates{Active: 1, Paused: 1})
		names, err := s.store.SchedulesFrom(s.Context(), "")
		expect(s, "the schedules that nobody keeps", names, err, []string{"a", "b"})
	}},
	{"servers", func(s *stage) {
		_, err := s.beat("one")
		check(s, err)
		s.expectServers("one")
		check(s, s.store.SignOff(s.Context(), "one"))
		s.expectServers()
	}},
	{"put_in_transit", func(s *stage) {
		s.stored("a", time.Hour)
		expect(s, "what is set aside", len(s.putInTransit("a").Jobs), nil, 1)
		s.expectStored("a", "")
	}},
	{"put_ready_in_transit", func(s *stage) {
		s.stored("a", 0)
		s.stored("b", 0)
		aside, err := s.store.PutReadyInTransit(s.store.Keys().ReadyQueue(topic), []string{"a"}, []string{"b"}).Do(s.Context())
		expect(s, "what is set aside", len(aside.Jobs), err, 1)
		s.expectStored("a", "")
		s.expectStored("b", "ready")
	}},
	{"stats", func(s *stage) {
		s.reserved("reserved")
		s.letter("dead")
		s.stored("a", 0)
		s.stored("b", time.Hour)
		stats, err := s.store.Stats(s.Context(), []string{topic}, true)
		check(s, err)
		t := stats.Topics[0]
		expect(s, "waiting, ready, reserved and dead", []int{stats.Waiting, t.Ready, t.Reserved, t.Dead}, nil, []int{1, 1, 1, 1})
	}},
	{"stray", func(s *stage) {
		prefix := s.prefix + "stray:"
		check(s, fleet.Layout{Partitions: 4}.Open(s.pool, prefix).Stores[0].Ping(s.Context()))
		shrinking := fleet.Layout{Partitions: 2, Previous: 4}.Open(s.pool, prefix)
		check(s, shrinking.Stores[0].Ping(s.Context()))
		check(s, shrinking.MigrationDone(s.Context()))
		late := store.Delayed{Job: store.Job{ID: "late", Topic: topic, Body: "b"}, Due: store.Due{After: time.Hour}}
		_, err := store.New(s.pool, prefix+"{3}:").Push([]store.Delayed{late}).Do(s.Context())
		check(s, err)
		strays, err := fleet.Layout{Partitions: 2}.Open(s.pool, prefix).Strays(s.Context())
		expect(s, "stray jobs", fmt.Sprint(strays), err, fmt.Sprint([]fleet.Stray{{Partitions: 4, Jobs: 1}}))
	}},
	{"sweep", func(s *stage) {
		s.allDone(s.store.Push([]store.Delayed{{Job: store.Job{ID: "a", Topic: topic, Body: "b"}, Terms: store.Terms{Lifetime: time.Millisecond}}}))
		redistest.Until(s, "a job is gone whose lifetime is over", func() bool {
			_, err := s.store.Get(s.Context(), "a")
			return errors.Is(err, store.ErrNotFound)
		})
		swept, err := s.store.Sweep(s.Context(), store.Position{})
		expect(s, "the queues with entries of no job", len(swept.Gone), err, 1)
	}},
	{"take_slots", func(s *stage) {
		s.reserved("a")
		s.stored("b", 0)
		check(s, (&fleet.Fleet{Stores: []*store.Store{s.store}}).SetLimit(s.Context(), topic, store.Limit{Concurrency: 1}))
		got, err := s.store.Reserve(store.Wanted{Topics: []string{topic}, N: 1}, store.Reservation{}).Do(s.Context())
		expect(s, "how many are reserved", len(got.Jobs), err, 0)
	}},
	{"topics", func(s *stage) {
		s.stored("a", time.Hour)
		names, _, err := s.store.KnownTopics(s.Context(), 10, "opi")
		expect(s, "the topics", names, err, []string{topic})
	}},
	{"unschedule", func(s *stage) {
		scheduled := s.scheduled("a", time.Hour)
		check(s, s.store.RemoveSchedule(s.Context(), "a", ""))
		s.expectStored(scheduled.ID, "")
	}},
	{"wake", func(s *stage) {
		awaitMessage := s.subscribe(s.store.Keys().Wake("first"), s.store.Keys().Wake("second"))
		s.expectLook("first", 0, true)
		s.expectLook("second", 0, true)
		s.stored("a", 0)
		expect(s, "the channel", awaitMessage().Channel, nil, s.store.Keys().Wake("first"))
		_, err := s.store.Wake([]string{topic}).Do(s.Context())
		check(s, err)
		expect(s, "the next channel", awaitMessage().Channel, nil, s.store.Keys().Wake("second"))
	}},
}

// stored stores a job.
func (s *stage) stored(id string, delay time.Duration) {
	s.Helper()
	job := store.Job{ID: id, Topic: topic, Body: "body of " + id}
	s.allDone(s.store.Push([]store.Delayed{{Job: job, Due: store.Due{After: delay}, Terms: store.Terms{Lifetime: time.Hour, Policy: store.Replace}}}))
}

// scheduled stores a schedule whose next occurrence is in the given time.
func (s *stage) scheduled(name string, in time.Duration) store.Scheduled {
	s.Helper()
	now, err := s.store.Time(s.Context())
	check(s, err)
	schedule := store.Schedule{Name: name, Spec: "@every 1h", Zone: "UTC", Topic: topic, Body: "body", Missed: store.MissedOnce, Overlap: store.OverlapAllow, Terms: store.Terms{Lifetime: time.Hour}}
	_, _, err = s.store.PutSchedule(s.Context(), schedule, now.Add(in))
	check(s, err)
	return s.readSchedule(name)
}

func (s *stage) readSchedule(name string) store.Scheduled {
	s.Helper()
	all, err := s.store.SchedulesOf(store.IDs{store.ScheduleID(name)}).Do(s.Context())
	check(s, err)
	if len(all.List) != 1 {
		s.Fatalf("there are %d schedules of that name", len(all.List))
	}
	return all.List[0]
}

// reserved stores a job and reserves it for an hour.
func (s *stage) reserved(id string) store.LeaseRef {
	s.Helper()
	s.stored(id, 0)
	popped, err := s.store.Reserve(store.Wanted{Topics: []string{topic}, N: 1}, store.Reservation{Lease: time.Hour}).Do(s.Context())
	check(s, err)
	if len(popped.Jobs) != 1 || popped.Jobs[0].ID != id {
		s.Fatalf("reserved %+v, want %s", popped.Jobs, id)
	}
	return store.LeaseRef{Topic: topic, ID: id, Token: popped.Leases[0].Token}
}

func (s *stage) putInTransit(id string) store.Transit {
	s.Helper()
	aside, err := s.store.PutInTransit([]string{id}, false).Do(s.Context())
	check(s, err)
	return aside
}

// letter stores a dead letter.
func (s *stage) letter(id string) {
	s.Helper()
	s.allDone(s.store.Bury([]store.Burial{{LeaseRef: s.reserved(id), Reason: "reason"}}))
}

// allDone makes a call for one job and requires success.
func (s *stage) allDone(call *store.Call[[]error]) {
	s.Helper()
	errs, err := call.Do(s.Context())
	check(s, err)
	check(s, errors.Join(errs...))
}

func (s *stage) expectStored(id, state string) store.JobInfo {
	s.Helper()
	job, err := s.store.Get(s.Context(), id)
	if state == "" {
		expectError(s, err, store.ErrNotFound)
	} else {
		expect(s, "the state of "+id, job.State, err, state)
	}
	return job
}

func (s *stage) expectPage(state, id string) {
	s.Helper()
	page, err := s.store.Browse(s.Context(), store.Browse{Topic: topic, State: state, Jobs: 10, Entries: 10, Preview: 100})
	check(s, err)
	if len(page.Jobs) != 1 || page.Jobs[0].ID != id {
		s.Errorf("the page is %+v", page)
	}
}

func (s *stage) expectLook(waiter string, length int, registered bool) {
	s.Helper()
	found, err := store.PollAll(s.Context(), store.Poll{Store: s.store, Topics: []string{topic}, Waiter: waiter, Since: []time.Duration{0}})
	check(s, err)
	expect(s, "the length of the queue", found[0].Lengths, nil, []int{length})
	if registered {
		expect(s, "who was registered", found[0].Added, nil, []bool{true})
	}
}

// awaitDue polls for due jobs until wanted accepts the result.
func (s *stage) awaitDue(wanted func(store.DueJobs) bool) (due store.DueJobs) {
	s.Helper()
	redistest.Until(s, "the job is due", func() (is bool) {
		var err error
		due, err = s.store.Due(store.Query{Limit: 10}).Do(s.Context())
		check(s, err)
		return wanted(due)
	})
	return due
}

func (s *stage) beat(id string) (store.HeartbeatReply, error) {
	return s.store.Heartbeat(store.ServerState{ID: id, Interval: time.Minute}, -1, 0).Do(s.Context())
}

func (s *stage) expectServers(want ...string) {
	s.Helper()
	servers, err := s.store.Servers(s.Context())
	var ids []string
	for _, server := range servers {
		ids = append(ids, server.ID)
	}
	expect(s, "the servers", ids, err, want)
}

// subscribe listens to channels of the store; await returns the next message.
func (s *stage) subscribe(channels ...string) (await func() store.Event) {
	s.Helper()
	sub, err := s.store.Subscribe(s.Context(), patience, channels...)
	check(s, err)
	messages := make(chan store.Event, 10)
	done := make(chan struct{})
	s.Cleanup(func() { sub.Close(); <-done })
	heard := make(chan error, len(channels))
	go func() {
		defer close(done)
		for {
			event, err := sub.Receive()
			switch {
			case err != nil:
				return
			case event.Subscribed || event.Refused != nil:
				heard <- event.Refused
			default:
				messages <- event
			}
		}
	}()
	for range channels {
		check(s, redistest.Receive(s, heard))
	}
	return func() store.Event { s.Helper(); return redistest.Receive(s, messages) }
}

// TestEachScriptIsTried fails if a script is missing from the table.
func TestEachScriptIsTried(t *testing.T) {
	files, err := filepath.Glob("../store/lua/*.lua")
	check(t, err)
	want := map[string]bool{}
	for _, file := range files {
		want[strings.TrimSuffix(filepath.Base(file), ".lua")] = true
	}
	f := redistest.Start(t)
	o := client.PoolOptions{Addr: f.Addr}
	pool, ran := watched(client.NewPool(o))
	r := newRunOn(t, o, pool)
	tried := map[string]bool{}
	for _, l := range scripts {
		f.Do("SCRIPT", "FLUSH") // makes the next call send the text
		ran()
		if works, why := r.verdict(l); works != yes || !ran()[l.name] {
			t.Errorf("the line %s does not run that script%s", l.name, why)
		}
		tried[l.name] = true
	}
	if !maps.Equal(tried, want) {
		t.Errorf("the table has the lines\n%q\nand the store the scripts\n%q", slices.Sorted(maps.Keys(tried)), slices.Sorted(maps.Keys(want)))
	}
}

// watched makes a pool record which scripts' texts were sent to Redis; ran returns and clears them.
func watched(pool *redis.Pool) (_ *redis.Pool, ran func() map[string]bool) {
	w := &watcher{}
	dial := pool.DialContext
	pool.DialContext = func(ctx context.Context) (redis.Conn, error) {
		conn, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		return watchedConn{conn.(timedConn), w}, nil
	}
	return pool, w.take
}

type timedConn interface {
	redis.ConnWithContext
	redis.ConnWithTimeout
}

type watcher struct {
	mu  sync.Mutex
	ran map[string]bool
}

func (w *watcher) take() map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	ran := w.ran
	w.ran = map[string]bool{}
	return ran
}

type watchedConn struct {
	timedConn
	*watcher
}

// Send records the name in the first comment of a script's text.
func (c watchedConn) Send(command string, args ...any) error {
	if command == "EVAL" {
		c.mu.Lock()
		for _, l := range scripts {
			if strings.Contains(args[0].(string), "\n-- "+l.name+": ") || strings.HasPrefix(args[0].(string), "-- "+l.name+": ") {
				c.ran[l.name] = true
			}
		}
		c.mu.Unlock()
	}
	return c.timedConn.Send(command, args...)
}
