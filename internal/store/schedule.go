package store

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	scheduleScript       = newScript("schedule")
	unscheduleScript     = newScript("unschedule")
	pauseScheduleScript  = newScript("pause_schedule")
	runScheduleScript    = newScript("run_schedule")
	schedulesScript      = newScript("schedules")
	fireScript           = newScript("fire")
	mendSchedulesScript  = newScript("mend_schedules")
	schedulesFromScript  = newScript("schedules_from")
	listSchedulesScript  = newScript("list_schedules")
	scheduleIDForm       = regexp.MustCompile(`(?s)^\{(.*)\}@schedule$`)
	rememberedMomentForm = regexp.MustCompile(`^(\d+)([a-z])(\d+)$`)
)

// ScheduleTopic is the topic of schedules. They are jobs, which a server fires when they fall due, and does not move.
const ScheduleTopic = "delayer:schedules"

// ScheduleID is the ID of the job that a schedule is. The IDs of its jobs begin alike, up to the @, so that all are in one partition.
func ScheduleID(name string) string { return "{" + name + "}@schedule" }

// MomentID is the ID of a schedule's job of that moment.
func MomentID(name string, at time.Time) string {
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
	Next     time.Time // its next moment; zero if there is none
	Due      time.Time // when it is looked at; zero if it is not in the pool
	Old      []OldSpec // that it had, with occurrences since Next that nobody has fired; the oldest first
	Paused   time.Time // since when; zero if it is not
	LastID   string    // of its last job
	Ran      int64     // how many moments have had a job
	NotRun   NotRun    // and how many have not
	Past     []Moment  // the last ten, the oldest first
	Broken   error     // why its bucket can't be read; then only ID, Name and Revision are sure
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
	MomentRan        = "r" // it has a job
	MomentNow        = "n" // somebody wanted a job then
	MomentLate       = "l" // it has none, as it is too late for it
	MomentOverlapped = "o" // it has none of its own, as the job before is not done
	MomentPaused     = "p" // it has none, as the schedule is paused
)

// Moment is one of a schedule.
type Moment struct {
	At   time.Time
	What string
	Late time.Duration // when it was fired, less At
}

// Outcome is What in words.
func (m Moment) Outcome() string { return outcomesOfMoments[m.What] }

var outcomesOfMoments = map[string]string{
	MomentRan: "ran", MomentNow: "run now", MomentLate: "late", MomentOverlapped: "overlapped", MomentPaused: "paused",
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

// HasSchedules reports whether there are all of these schedules.
func (s *Store) HasSchedules(ctx context.Context, names []string) (bool, error) {
	for names := range slices.Chunk(names, schedulesPage) {
		args := make([]any, len(names))
		for i, name := range names {
			args[i] = s.keys.JobBucket(ScheduleID(name))
		}
		if n, err := redis.Int(s.command(ctx, "EXISTS", args...)); err != nil || n < len(names) {
			return false, err
		}
	}
	return true, nil
}

// SchedulesFrom are the names of the schedules of that source.
func (s *Store) SchedulesFrom(ctx context.Context, source string) (names []string, err error) {
	last := ""
	for again := true; again; again = err == nil && last != "" {
		args := append(arguments(3, s.jobPool), source, last, schedulesPage)
		var page []string
		page, err = newCall(s, schedulesFromScript, args, func(reply any) (page []string, err error) {
			rest, err := scan(reply, &last)
			if err == nil {
				page, err = redis.Strings(rest, nil)
			}
			return page, err
		}).Do(ctx)
		names = append(names, page...)
	}
	return names, err
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

// Schedules are some schedules.
type Schedules struct {
	Now  time.Time // by Redis's clock
	List []Scheduled
	Last string // the name behind which there are more; empty if there are none
}

// SchedulesOf reads those of these IDs that are schedules, 1,000 at most.
func (s *Store) SchedulesOf(ids IDs) *Call[Schedules] {
	args := append(arguments(1+len(ids), s.jobPool), "of")
	return newCall(s, schedulesScript, append(args, ids...), schedulesOf)
}

// DueSchedules reads of those of these IDs that are schedules what it takes to fire them, 1,000 at most. The rest of a Scheduled is zero.
func (s *Store) DueSchedules(ids IDs) *Call[Schedules] {
	args := append(arguments(1+len(ids), s.jobPool), "due")
	return newCall(s, schedulesScript, append(args, ids...), schedulesOf)
}

// SchedulesBehind reads the next schedules behind that name, in their order; the first ones behind "".
func (s *Store) SchedulesBehind(name string, most int) *Call[Schedules] {
	return newCall(s, schedulesScript, append(arguments(3, s.jobPool), "behind", name, most), schedulesOf)
}

// schedulesPage is how many schedules are read at a time.
const schedulesPage = 250

// Schedules are all of them, by name.
func (s *Store) Schedules(ctx context.Context) (all Schedules, err error) {
	if all, err = s.SchedulesBehind("", schedulesPage).Do(ctx); err == nil {
		err = s.readOn(ctx, &all)
	}
	return all, err
}

// readOn reads what comes behind some schedules, page by page.
func (s *Store) readOn(ctx context.Context, all *Schedules) error {
	for all.Last != "" {
		page, err := s.SchedulesBehind(all.Last, schedulesPage).Do(ctx)
		if err != nil {
			return err
		}
		all.Now, all.Last, all.List = page.Now, page.Last, append(all.List, page.List...)
	}
	return nil
}

func schedulesOf(reply any) (all Schedules, err error) {
	var now int64
	rest, err := scan(reply, &now, &all.Last)
	if err != nil {
		return Schedules{}, err
	}
	all.Now = time.UnixMicro(now)
	for _, told := range rest {
		one, err := scheduledOf(told)
		if one.ID == "" {
			return Schedules{}, err
		}
		one.Broken = err
		all.List = append(all.List, one)
	}
	return all, nil
}

func scheduledOf(reply any) (s Scheduled, err error) {
	var score, topic, options, next, paused, old, past string
	var jitter int64
	var fields []any
	if _, err = scan(reply, &s.ID, &score, &fields); err != nil {
		return s, err
	}
	if match := scheduleIDForm.FindStringSubmatch(s.ID); match != nil {
		s.Name = match[1]
	}
	into := []any{&s.Revision, &topic, &s.Spec, &s.Zone, &s.Topic, &s.Missed, &jitter, &next, &paused, &old, &s.Body, &s.Overlap, &options, &s.Source,
		&s.LastID, &past, &s.Ran, &s.NotRun.Late, &s.NotRun.Overlapped, &s.NotRun.Paused}
	if _, err = redis.Scan(fields, into[:min(len(fields), len(into))]...); err != nil {
		return s, err
	}
	s.Jitter = time.Duration(jitter) * time.Millisecond
	var ttr, lifetime int64
	fmt.Sscan(options, &s.MaxAttempts, &ttr, &lifetime)
	s.TTR, s.Lifetime = time.Duration(ttr)*time.Millisecond, time.Duration(lifetime)*time.Millisecond
	if next != "" && timeOfMillis(next).IsZero() {
		return s, fmt.Errorf("its next moment is %s", Quote(next))
	}
	s.Next, s.Paused = timeOfMillis(next), timeOfMillis(paused)
	for line := range strings.Lines(old) {
		if part := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4); len(part) == 4 {
			s.Old = append(s.Old, OldSpec{Spec: part[3], Zone: part[2], Until: timeOfMillis(part[0]), Then: timeOfMillis(part[1])})
		}
	}
	if score != "" {
		s.Due, err = scoreTime(score)
	}
	for moment := range strings.FieldsSeq(past) {
		if m := rememberedMomentForm.FindStringSubmatch(moment); m != nil {
			late, _ := strconv.ParseInt(m[3], 10, 64)
			s.Past = append(s.Past, Moment{timeOfMillis(m[1]), m[2], time.Duration(late) * time.Millisecond})
		}
	}
	return s, err
}

// timeOfMillis is the time of a text, Unix ms; zero of none.
func timeOfMillis(text string) time.Time {
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

func millisOf(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}

// Firing is what a schedule that is due leads to.
type Firing struct {
	Scheduled              // as it was read
	Unknown      bool      // nobody knows its moments: it is put off
	Upcoming     time.Time // its next moment; zero if there is none
	Late, Paused int       // how many moments have no job
	Moments      []FiredMoment
}

// FiredMoment is one that has passed, and its job, if it is to have one.
type FiredMoment struct {
	At   time.Time
	What string    // MomentRan, MomentLate or MomentPaused
	Due  time.Time // when its job is
}

// FiredAll is what came of a Fire.
type FiredAll struct {
	Fired       []Fired // of the first firings: a call leaves the rest to another one when its time is up, but for one firing
	CantPublish error   // why no waiter could be woken
	Woken       bool    // one was
}

// Fired is what became of a Firing.
type Fired struct {
	Done            bool // else somebody else has fired, changed or removed the schedule
	Ran, Overlapped int
	Followed        string // the job whose ID the last moment's job has, as it follows it; empty if it follows none
	Refused         error  // why it could not be fired: it is due later now
}

// Fire fires schedules that are due, as many as it can within that time of Redis. Those that can't be fired are due from retry on, ten in
// each millisecond.
func (s *Store) Fire(firings []Firing, retry time.Time, within time.Duration) *Call[FiredAll] {
	args := append(arguments(2+12*len(firings), s.jobPool), retry.UnixMilli(), within.Microseconds())
	for _, f := range firings {
		upcoming := millisOf(f.Upcoming)
		if f.Unknown {
			upcoming = "later"
		}
		args = append(args, f.ID, f.Revision, millisOf(f.Next), upcoming, f.Late, f.Paused, len(f.Old) > 0, len(f.Moments))
		for _, m := range f.Moments {
			args = append(args, m.At.UnixMilli(), m.What, MomentID(f.Name, m.At), m.Due.UnixMilli())
		}
	}
	return newCall(s, fireScript, args, func(reply any) (all FiredAll, err error) {
		var why string
		rest, err := scan(reply, &why)
		if all.Woken = why == "woken"; !all.Woken {
			all.CantPublish = reason(why)
		}
		for _, one := range rest {
			fired, failed := firedOf(one)
			all.Fired, err = append(all.Fired, fired), cmp.Or(err, failed)
		}
		if len(all.Fired) > len(firings) {
			err = errUnreadable
		}
		return all, err
	})
}

func firedOf(reply any) (f Fired, err error) {
	var what int
	rest, err := scan(reply, &what)
	if err != nil {
		return f, err
	}
	switch what {
	case 1:
		f.Done = true
		_, err = redis.Scan(rest, &f.Ran, &f.Overlapped, &f.Followed)
	case 2:
		var why string
		_, err = redis.Scan(rest, &why)
		f.Refused = reason(why)
	}
	return f, err
}

// Mended is what came of a MendSchedules.
type Mended struct {
	All   int // how many schedules there are
	Last  string
	Names []string // of those that were put back into the pool
}

// MendSchedules puts schedules back into the pool that a server has moved which doesn't know what they are. It looks at the next ones
// behind that name, unless they are all still where they belong, for what is moved is in a queue; all has it look at them even so.
func (s *Store) MendSchedules(ctx context.Context, behind string, all bool) (Mended, error) {
	which := "moved"
	if all {
		which = "all"
	}
	args := append(arguments(3, s.jobPool), behind, schedulesPage, which)
	return newCall(s, mendSchedulesScript, args, func(reply any) (m Mended, err error) {
		rest, err := scan(reply, &m.All, &m.Last)
		if err == nil {
			m.Names, err = redis.Strings(rest, nil)
		}
		return m, err
	}).Do(ctx)
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

// Schedules are those of all partitions, by name. One that is on its way from a partition of before may be missing. With an error they are
// those of the partitions that can be read.
func (p Partitions) Schedules(ctx context.Context) ([]Scheduled, error) {
	parts := make([]Schedules, len(p))
	err := everywhere(ctx, p, "asked", func(i int) *Call[Schedules] { return p[i].SchedulesBehind("", schedulesPage) },
		func(i int, first Schedules) (more bool) { parts[i] = first; return false })
	for i, s := range p {
		if more := s.readOn(ctx, &parts[i]); more != nil {
			err = cmp.Or(err, p.named(i, more))
		}
	}
	return JoinSchedules(parts), err
}

// JoinSchedules are the partitions' schedules, by name. Of one that two have, the first one's counts.
func JoinSchedules(parts []Schedules) (all []Scheduled) {
	for _, part := range parts {
		all = append(all, part.List...)
	}
	slices.SortStableFunc(all, func(a, b Scheduled) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(all, func(a, b Scheduled) bool { return a.Name == b.Name })
}
