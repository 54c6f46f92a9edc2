package store

import (
	"context"
	"regexp"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	scheduleScript        = newScript("schedule")
	unscheduleScript      = newScript("unschedule")
	pauseScheduleScript   = newScript("pause_schedule")
	runScheduleScript     = newScript("run_schedule")
	schedulesScript       = newScript("schedules")
	fireScript            = newScript("fire")
	repairSchedulesScript = newScript("repair_schedules")
	listSchedulesScript   = newScript("list_schedules")
	scheduleIDForm        = regexp.MustCompile(`(?s)^\{(.*)\}@schedule$`)
	rememberedForm        = regexp.MustCompile(`^(\d+)([a-z])(\d+)$`)
)

// ScheduleTopic is the topic of schedules. They are jobs that a server fires when they are due, instead of moving them.
const ScheduleTopic = "delayer:schedules"

// ScheduleID returns the ID of a schedule's job. The IDs of its occurrences' jobs begin alike, up to the @, so all are in one partition.
func ScheduleID(name string) string { return "{" + name + "}@schedule" }

// OccurrenceID returns the ID of an occurrence's job.
func OccurrenceID(name string, at time.Time) string {
	return "{" + name + "}@" + at.UTC().Format("2006-01-02T15:04:05.999Z07:00")
}

// Schedule is a schedule as it is set.
type Schedule struct {
	Name            string
	Spec, Zone      string // as package cron and time.LoadLocation read them
	Topic, Body     string // of its jobs
	Missed, Overlap string
	Jitter          time.Duration
	Terms                  // of its jobs: Lifetime, MaxAttempts, TTR and Headers
	Source          string // its owner, see SetAll of client.Schedules; may be empty
}

// Policies for occurrences that no server saw in time, and for those whose previous job is not done.
const (
	MissedOnce    = "once"
	MissedSkip    = "skip"
	MissedAll     = "all"
	OverlapAllow  = "allow"
	OverlapSkip   = "skip"
	OverlapFollow = "follow"
)

// Scheduled is a schedule as stored in Redis.
type Scheduled struct {
	Schedule
	ID       string
	Revision string
	Next     time.Time    // its next occurrence; zero at the end
	Due      time.Time    // when a server fires it; zero if it is not in the pool
	Old      []OldSpec    // previous specs with unfired occurrences since Next, the oldest first
	Paused   time.Time    // since when; zero if it is not
	LastID   string       // of its last job
	Ran      int64        // number of occurrences with a job
	NotRun   NotRun       // numbers of those without
	Past     []Occurrence // the last ten, the oldest first
	Broken   error        // why its bucket can't be read; then only ID, Name and Revision are sure
}

// OldSpec is a spec that was changed while its occurrences were overdue.
type OldSpec struct {
	Spec, Zone string
	Until      time.Time // when it was changed
	Then       time.Time // the first occurrence of the next spec
}

// NotRun counts the occurrences without a job, by reason.
type NotRun struct {
	Late       int64 // too late
	Overlapped int64 // the previous job was not done
	Paused     int64 // the schedule was paused
}

// The outcomes of an Occurrence.
const (
	OccurrenceRan        = "r" // it has a job
	OccurrenceRunNow     = "n" // it was run by hand
	OccurrenceLate       = "l" // no job: it was too late
	OccurrenceOverlapped = "o" // no job: the previous one is not done
	OccurrencePaused     = "p" // no job: the schedule is paused
)

// Occurrence is one occurrence of a schedule.
type Occurrence struct {
	At   time.Time
	What string
	Late time.Duration // when it was fired, less At
}

// Outcome returns What in words.
func (m Occurrence) Outcome() string { return occurrenceOutcomes[m.What] }

var occurrenceOutcomes = map[string]string{
	OccurrenceRan: "ran", OccurrenceRunNow: "run now", OccurrenceLate: "late", OccurrenceOverlapped: "overlapped", OccurrencePaused: "paused",
}

// PutSchedule stores or changes a schedule. first is its first occurrence, unless its spec and zone stay the same. It returns the next
// occurrence, and whether anything has changed. Overdue occurrences of the old spec are still fired: see OldSpec.
func (s *Store) PutSchedule(ctx context.Context, of Schedule, first time.Time) (next time.Time, changed bool, err error) {
	return s.putSchedule(ctx, of, first, "")
}

// PutMissingSchedule stores a schedule that Redis has lost: its name is free and was not removed by hand.
func (s *Store) PutMissingSchedule(ctx context.Context, of Schedule, first time.Time) (next time.Time, stored bool, err error) {
	return s.putSchedule(ctx, of, first, "missing")
}

func (s *Store) putSchedule(ctx context.Context, of Schedule, first time.Time, mode string) (next time.Time, changed bool, err error) {
	args := append(arguments(12, s.jobPool), of.Name, first.UnixMilli(), of.Spec, of.Zone, of.Topic, of.Body,
		of.Missed, of.Overlap, milliseconds(of.Jitter), of.text(), of.Source, mode)
	var what int
	ms, err := newCall(s, scheduleScript, args, func(reply any) (ms int64, err error) {
		_, err = scan(reply, &what, &ms)
		return ms, err
	}).Do(ctx)
	if err == nil && what == 3 {
		err = ErrExists
	}
	return time.UnixMilli(ms), what != 0, err
}

// ListSchedules registers for 150 s the schedules in a server's file, if any, and returns those in other servers' files. Only partition 0
// has these lists.
func (s *Store) ListSchedules(ctx context.Context, id string, names []string) (others map[string]bool, err error) {
	list := ""
	if len(names) > 0 {
		list = "\n" + strings.Join(names, "\n")
	}
	return newCall(s, listSchedulesScript, append(arguments(2, s.keys.Servers()), id, list), func(reply any) (map[string]bool, error) {
		lists, err := redis.Strings(reply, nil)
		others := map[string]bool{}
		for _, list := range lists {
			for name := range strings.SplitSeq(list, "\n") {
				others[name] = true
			}
		}
		return others, err
	}).Do(ctx)
}

// UnlistSchedules removes the list of ListSchedules.
func (s *Store) UnlistSchedules(ctx context.Context, id string) error {
	_, err := s.command(ctx, "HDEL", s.keys.ScheduleLists(), id)
	return err
}

// RemoveSchedule deletes a schedule with this source. An empty source matches any and counts as a removal by hand, so PutMissingSchedule
// does not store the schedule again. It fails with ErrNotFound if no schedule matches.
func (s *Store) RemoveSchedule(ctx context.Context, name, source string) error {
	return s.findSchedule(ctx, unscheduleScript, name, source)
}

// PauseSchedule pauses a schedule, so that its occurrences have no jobs, or resumes it. It fails with ErrNotFound if there is no such
// schedule.
func (s *Store) PauseSchedule(ctx context.Context, name string, paused bool) error {
	what := "resume"
	if paused {
		what = "pause"
	}
	return s.findSchedule(ctx, pauseScheduleScript, ScheduleID(name), what)
}

func (s *Store) findSchedule(ctx context.Context, script *script, args ...any) error {
	errs, err := newCall(s, script, append(arguments(len(args), s.jobPool), args...), isFound).Do(ctx)
	if err != nil {
		return err
	}
	return errs[0]
}

// RunSchedule stores a job of the schedule now, and returns its ID. It fails with ErrNotFound if there is no such schedule.
func (s *Store) RunSchedule(ctx context.Context, name string) (id string, err error) {
	args := append(arguments(2, s.jobPool), ScheduleID(name), "{"+name+"}@now-")
	id, err = newCall(s, runScheduleScript, args, func(reply any) (string, error) { return redis.String(reply, nil) }).Do(ctx)
	if err == nil && id == "" {
		err = ErrNotFound
	}
	return id, err
}

// Time returns Redis's time.
func (s *Store) Time(ctx context.Context) (time.Time, error) {
	var sec, micro int64
	reply, err := s.command(ctx, "TIME")
	if err == nil {
		_, err = scan(reply, &sec, &micro)
	}
	return time.Unix(sec, micro*1000), err
}
