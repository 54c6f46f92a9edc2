package client_test

import (
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
)

// Schedule steps of TestModel.

// scheduleName returns the name of a schedule; some job ID has the same tag.
func (r *modelRun) scheduleName() string { return pick(r.Rand, []string{"a", "s"}) }

// scheduleStep stores a schedule, or changes one to the same occurrences and another topic. The body of the schedule's
// own job has the spec.
func scheduleStep(r *modelRun) {
	name := r.scheduleName()
	id := store.ScheduleID(name)
	s := client.Schedule{Name: name, Every: pick(r.Rand, []time.Duration{time.Hour, 2 * time.Hour}), Topic: r.topic(), Body: "b",
		Overlap: pick(r.Rand, []string{"allow", "skip", "follow", "follow"})}
	body := "@every " + s.Every.String()
	if r.model.jobs[id].body != body {
		r.model.occurrences[id] = 0
	}
	_, err := r.Schedules().Set(r.TB.Context(), s)
	r.model.put(id, body, s.Topic, s.Overlap)
	r.note(fmt.Sprintf("schedule %s %s, %s", name, body, s.Overlap), err, nil)
	if r.model.occurrences[id] == 0 {
		r.learn(id, s.Every)
		r.model.occurrences[id] = r.model.pool[id].score
		return
	}
	score, err := redis.Float64(r.Do("ZSCORE", r.keys(id).JobPool(), id), nil)
	r.note("  its score", err, nil)
	if entry := r.model.pool[id]; score != entry.score {
		entry.score = score // the schedule is unchanged and was made due earlier
		r.model.pool[id] = entry
	}
}

func unscheduleStep(r *modelRun) {
	name := r.scheduleName()
	was, err := r.Schedules().Remove(r.TB.Context(), name)
	r.note("unschedule "+name, err, nil)
	r.same("  was", was, r.model.unschedule(store.ScheduleID(name)))
}

func pauseScheduleStep(r *modelRun) {
	name, pause := r.scheduleName(), r.IntN(2) == 0
	id := store.ScheduleID(name)
	do := r.Schedules().Resume
	if pause {
		do = r.Schedules().Pause
	}
	_, exists := r.model.occurrences[id]
	var want error
	if !exists {
		want = client.ErrNotFound
	}
	r.note(fmt.Sprintf("pause %s: %v", name, pause), do(r.TB.Context(), name), want)
	if delete(r.model.paused, id); exists && pause {
		r.model.paused[id] = true
	}
}

func runNowStep(r *modelRun) {
	name := r.scheduleName()
	id := store.ScheduleID(name)
	_, exists := r.model.occurrences[id]
	job, err := r.Schedules().Run(r.TB.Context(), name)
	if !exists {
		r.note("run "+name, err, client.ErrNotFound)
		return
	}
	r.note("run "+name, err, nil)
	r.same("  its job", job, r.model.run(id, job, false))
}

// scheduleIsDueStep makes a schedule overdue.
func scheduleIsDueStep(r *modelRun) {
	id := store.ScheduleID(r.scheduleName())
	if entry, waits := r.model.pool[id]; waits && !r.model.isDue(entry) {
		entry.score = float64(1_000_000_000 + r.tick())
		r.model.pool[id] = entry
		r.Do("ZADD", r.keys(id).JobPool(), fmt.Sprintf("%.3f", entry.score), id)
		r.note(id+" is due", nil, nil)
	}
}

// fireStep restores schedules that an old server has moved and fires due schedules, as a server does.
func (r *modelRun) fireStep() {
	ctx := r.TB.Context()
	for _, s := range r.jobs.Stores {
		_, err := s.RepairSchedules(ctx, "", true)
		r.note("repair", err, nil)
	}
	r.model.repair()
	for _, id := range r.model.due() {
		s := r.jobs.Of(id)
		read, err := s.SchedulesOf(store.IDs{id}).Do(ctx)
		if err != nil || len(read.List) != 1 {
			r.TB.Fatalf("read %s: %+v, %v", id, read, err)
		}
		at := read.List[0]
		occurrence := store.FiredOccurrence{At: at.Next, What: store.OccurrenceRan, Due: read.Now.Add(-time.Second)}
		if r.model.paused[id] {
			occurrence.What = store.OccurrencePaused
		}
		next := read.Now.Add(r.far()).Truncate(time.Millisecond)
		fired, err := s.Fire([]store.Firing{{Scheduled: at, Upcoming: next, Occurrences: []store.FiredOccurrence{occurrence}}}, next, time.Second).Do(ctx)
		r.note("fire "+id, err, nil)
		r.same("  done", len(fired.Fired) == 1 && fired.Fired[0].Done, true)
		score := float64(next.UnixMilli()) / 1000
		r.model.pool[id], r.model.occurrences[id] = modelEntry{score: score}, score
		job := store.OccurrenceID(at.Name, at.Next)
		if !r.model.paused[id] {
			r.model.run(id, job, true)
		}
	}
}
