package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Schedules is a page of schedules.
type Schedules struct {
	Now  time.Time // by Redis's clock
	List []Scheduled
	Last string // last name of the page; empty at the end
}

// SchedulesOf reads up to 1,000 schedules; other IDs are left out.
func (s *Store) SchedulesOf(ids IDs) *Call[Schedules] {
	args := append(arguments(2+len(ids), s.jobPool), "all", "of")
	return newCall(s, schedulesScript, append(args, ids...), schedulesOf)
}

// DueSchedules reads the fields that a server needs to fire these schedules, 1,000 at most, and their sources. The rest of each Scheduled
// is zero.
func (s *Store) DueSchedules(ids IDs) *Call[Schedules] {
	args := append(arguments(2+len(ids), s.jobPool), "due", "of")
	return newCall(s, schedulesScript, append(args, ids...), schedulesOf)
}

// SchedulesBehind reads the next schedules after that name, by name; "" starts at the beginning.
func (s *Store) SchedulesBehind(name string, most int) *Call[Schedules] {
	return s.schedulesBehind("all", name, most)
}

func (s *Store) schedulesBehind(read, name string, most int) *Call[Schedules] {
	return newCall(s, schedulesScript, append(arguments(4, s.jobPool), read, "behind", name, most), schedulesOf)
}

// SchedulesPage is the number of schedules per page.
const SchedulesPage = 250

// Schedules returns all of them, by name.
func (s *Store) Schedules(ctx context.Context) (all Schedules, err error) {
	for again := true; again && err == nil; again = all.Last != "" {
		var page Schedules
		page, err = s.SchedulesBehind(all.Last, SchedulesPage).Do(ctx)
		all.Now, all.Last, all.List = page.Now, page.Last, append(all.List, page.List...)
	}
	return all, err
}

// eachBriefly reads ID, Revision, Next, Paused and Source of all schedules, by name.
func (s *Store) eachBriefly(ctx context.Context, do func(now time.Time, one Scheduled)) error {
	for last := ""; ; {
		page, err := s.schedulesBehind("brief", last, SchedulesPage).Do(ctx)
		for _, one := range page.List {
			do(page.Now, one)
		}
		if last = page.Last; err != nil || last == "" {
			return err
		}
	}
}

// SchedulesFrom returns the names of the schedules of that source.
func (s *Store) SchedulesFrom(ctx context.Context, source string) (names []string, err error) {
	err = s.eachBriefly(ctx, func(_ time.Time, one Scheduled) {
		if one.Source == source {
			names = append(names, one.Name)
		}
	})
	return names, err
}

// ScheduleStates counts schedules.
type ScheduleStates struct {
	Active, Paused int
	Ended          int           // without a next occurrence
	Overdue        time.Duration // how long an active one's next occurrence has been due; 0 if none is
}

// Add adds the states of another partition.
func (s *ScheduleStates) Add(part ScheduleStates) {
	s.Active, s.Paused, s.Ended = s.Active+part.Active, s.Paused+part.Paused, s.Ended+part.Ended
	s.Overdue = max(s.Overdue, part.Overdue)
}

// ScheduleStates counts all schedules.
func (s *Store) ScheduleStates(ctx context.Context) (all ScheduleStates, err error) {
	err = s.eachBriefly(ctx, func(now time.Time, one Scheduled) {
		switch {
		case one.Broken == nil && one.Next.IsZero():
			all.Ended++
		case !one.Paused.IsZero():
			all.Paused++
		default:
			all.Active++
			if one.Broken == nil {
				all.Overdue = max(all.Overdue, now.Sub(one.Next))
			}
		}
	})
	return all, err
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
	into := []any{&s.Revision, &topic, &next, &paused, &s.Source, &s.Spec, &s.Zone, &s.Topic, &s.Missed, &jitter, &old, &s.Body, &s.Overlap, &options,
		&s.LastID, &past, &s.Ran, &s.NotRun.Late, &s.NotRun.Overlapped, &s.NotRun.Paused}
	if _, err = redis.Scan(fields, into[:min(len(fields), len(into))]...); err != nil {
		return s, err
	}
	s.Jitter = time.Duration(jitter) * time.Millisecond
	var ttr, lifetime int64
	fmt.Sscan(options, &s.MaxAttempts, &ttr, &lifetime)
	if at := strings.IndexByte(options, '{'); at >= 0 {
		s.Headers = options[at:]
	}
	s.TTR, s.Lifetime = time.Duration(ttr)*time.Millisecond, time.Duration(lifetime)*time.Millisecond
	s.Next, s.Paused = timeOfMillis(next), timeOfMillis(paused)
	if next != "" && s.Next.IsZero() {
		return s, fmt.Errorf("its next moment is %s", Quote(next))
	}
	for line := range strings.Lines(old) {
		if part := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4); len(part) == 4 {
			s.Old = append(s.Old, OldSpec{Spec: part[3], Zone: part[2], Until: timeOfMillis(part[0]), Then: timeOfMillis(part[1])})
		}
	}
	if score != "" {
		s.Due, err = scoreTime(score)
	}
	for moment := range strings.FieldsSeq(past) {
		if m := rememberedForm.FindStringSubmatch(moment); m != nil {
			late, _ := strconv.ParseInt(m[3], 10, 64)
			s.Past = append(s.Past, Occurrence{timeOfMillis(m[1]), m[2], time.Duration(late) * time.Millisecond})
		}
	}
	return s, err
}

// timeOfMillis parses Unix ms; an empty text becomes the zero time.
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
