package store

import (
	"context"
	"fmt"
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

// ScheduleTopic is the topic of schedules. They are jobs, which a server fires when they fall due, and does not move.
const ScheduleTopic = "delayer:schedules"

// ScheduleID is the ID of the job that a schedule is. The IDs of its jobs begin alike, up to the @, so that all are in one partition.
func ScheduleID(name string) string { return "{" + name + "}@schedule" }

// OccurrenceID is the ID of a schedule's job of that moment.
func OccurrenceID(name string, at time.Time) string {
	return "{" + name + "}@" + at.UTC().Format("2006-01-02T15:04:05.999Z07:00")
}

// Schedule is what a schedule is made with.
type Schedule struct {
	Name            string
	Spec, Zone      string // as package cron and time.LoadLocation read them
	Topic, Body     string // of its jobs
	Missed, Overlap string
	Jitter          time.Duration
	Terms                  // of its jobs: Lifetime, MaxAttempts and TTR
	Source          string // who keeps it, see SetSchedules of a Client; empty if nobody does
}

// What becomes of moments that nobody saw in time, and of those whose last job is not done.
const (
	MissedOnce    = "once"
	MissedSkip    = "skip"
	MissedAll     = "all"
	OverlapAllow  = "allow"
	OverlapSkip   = "skip"
	OverlapFollow = "follow"
)

// Scheduled is a schedule as it is in Redis.
type Scheduled struct {
	Schedule
	ID       string
	Revision string
	Next     time.Time    // its next moment; zero if there is none
	Due      time.Time    // when it is looked at; zero if it is not in the pool
	Old      []OldSpec    // that it had, with occurrences since Next that nobody has fired; the oldest first
	Paused   time.Time    // since when; zero if it is not
	LastID   string       // of its last job
	Ran      int64        // how many moments have had a job
	NotRun   NotRun       // and how many have not
	Past     []Occurrence // the last ten, the oldest first
	Broken   error        // why its bucket can't be read; then only ID, Name and Revision are sure
}

// OldSpec is one that was changed while its occurrences were overdue.
type OldSpec struct {
	Spec, Zone string
	Until      time.Time // when it was changed
	Then       time.Time // the first occurrence of the one that came after it
}

// NotRun is how many moments of a schedule have no job, by reason.
type NotRun struct {
	Late       int64 // it was too late for them
	Overlapped int64 // the job before was not done
	Paused     int64 // the schedule was paused
}

// What became of a Moment.
const (
	OccurrenceRan        = "r" // it has a job
	OccurrenceRunNow     = "n" // somebody wanted a job then
	OccurrenceLate       = "l" // it has none, as it is too late for it
	OccurrenceOverlapped = "o" // it has none of its own, as the job before is not done
	OccurrencePaused     = "p" // it has none, as the schedule is paused
)

// Moment is one of a schedule.
type Occurrence struct {
	At   time.Time
	What string
	Late time.Duration // when it was fired, less At
}

// Outcome is What in words.
func (m Occurrence) Outcome() string { return occurrenceOutcomes[m.What] }

var occurrenceOutcomes = map[string]string{
	OccurrenceRan: "ran", OccurrenceRunNow: "run now", OccurrenceLate: "late", OccurrenceOverlapped: "overlapped", OccurrencePaused: "paused",
}

// PutSchedule stores a schedule, or changes it. first is its first moment, unless it has the same spec and zone already. It returns
// the next one, and whether anything has changed. What is overdue by the spec that it had is still fired: see OldSpec.
func (s *Store) PutSchedule(ctx context.Context, of Schedule, first time.Time) (next time.Time, changed bool, err error) {
	return s.putSchedule(ctx, of, first, "")
}

// PutMissingSchedule stores a schedule that Redis has forgotten: there is none of that name, and nobody has removed it by hand.
func (s *Store) PutMissingSchedule(ctx context.Context, of Schedule, first time.Time) (next time.Time, stored bool, err error) {
	return s.putSchedule(ctx, of, first, "missing")
}

func (s *Store) putSchedule(ctx context.Context, of Schedule, first time.Time, mode string) (next time.Time, changed bool, err error) {
	options := fmt.Sprintf("%d %d %d", of.MaxAttempts, milliseconds(of.TTR), milliseconds(of.Lifetime))
	args := append(arguments(12, s.jobPool), of.Name, first.UnixMilli(), of.Spec, of.Zone, of.Topic, of.Body,
		of.Missed, of.Overlap, milliseconds(of.Jitter), options, of.Source, mode)
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

// ListSchedules says for 150 s which schedules the file of a server has, unless it has none, and returns what the files of others have. It is for
// partition 0.
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

// UnlistSchedules takes back what ListSchedules has said.
func (s *Store) UnlistSchedules(ctx context.Context, id string) error {
	_, err := s.command(ctx, "HDEL", s.keys.ScheduleLists(), id)
	return err
}

// RemoveSchedule deletes a schedule, if it has that source, or any if that is empty: so it is removed by hand, and PutMissingSchedule does not
// store it. It fails with ErrNotFound if there is none.
func (s *Store) RemoveSchedule(ctx context.Context, name, source string) error {
	return s.findSchedule(ctx, unscheduleScript, name, source)
}

// PauseSchedule has the moments of a schedule pass without jobs, or no more. It fails with ErrNotFound if there is none.
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

// Time is Redis's.
func (s *Store) Time(ctx context.Context) (time.Time, error) {
	var sec, micro int64
	reply, err := s.command(ctx, "TIME")
	if err == nil {
		_, err = scan(reply, &sec, &micro)
	}
	return time.Unix(sec, micro*1000), err
}
