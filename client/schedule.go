package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/cron"
	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/store"
)

// Schedule is a periodic job: at each occurrence a server pushes a job to Topic with Body. However many servers run,
// each occurrence produces one job or is recorded as missed. The job's ID is "{name}@2026-11-23T06:00:00Z", with the
// occurrence in UTC whatever the Zone, except under Overlap "follow".
type Schedule struct {
	// Name is unique among the schedules of all topics: up to 200 bytes without braces and control characters.
	Name string
	// Cron has five fields (minute, hour, day of the month, month, day of the week) as in crontab(5), or is
	// "@daily" and the like, or "@every 90s". A day of the month may be L, LW or 15W, a day of the week 5#2 or 5L.
	// At clock changes, a spec with fixed minutes and hours has each occurrence exactly once, and any other spec
	// simply continues.
	Cron string
	// Every is the interval between occurrences, instead of Cron: 10 ms to 10 years, in whole milliseconds. The
	// first one comes one interval from now.
	Every time.Duration
	// Zone is the time zone of Cron, such as "Europe/Berlin". Empty means UTC. A program on a host without time
	// zones imports time/tzdata.
	Zone string
	// Topic, Body and Headers go into each job.
	Topic, Body string
	Headers     map[string]string
	// Missed says what happens with occurrences that passed while no server ran or Redis was unreachable: "once", which is
	// the default: the last one gets a job at once; "skip": it does unless it is more than a minute late; or "all":
	// the last 100 do. Those without a job are counted and logged by the server.
	Missed string
	// Overlap says what happens at an occurrence while the last job is waiting, ready or reserved: "allow", which is
	// the default: the occurrence has its job all the same; "skip": it has none, and is counted; or "follow".
	//
	// "follow" never has two jobs running at a time, and begins one after each occurrence. If a consumer has begun
	// the last job, the occurrence's job is delivered when that one is done, under the last job's ID, like a push
	// with Follow; of several such occurrences the newest is kept. If no consumer has begun the last job yet, it
	// serves this occurrence too. Occurrences without a job of their own count as overlapped.
	Overlap string
	// Jitter is the most that a job is delayed at random. 0 means not at all.
	Jitter time.Duration
	// Options apply to each job.
	Options JobOptions
}

// ScheduleInfo is what Schedules.List returns about a schedule.
type ScheduleInfo struct {
	// Schedule can be passed to Schedules.Set again. It has either Cron or Every.
	Schedule
	// Owner is who keeps it, see Schedules.SetAll; empty if it has none.
	Owner string
	// Next is the next occurrence, zero if there is none.
	Next time.Time
	// Paused is when it was paused; zero if it is not.
	Paused time.Time
	// LastID is the ID of its last job; empty if there was none.
	LastID string
	// Jobs is how many jobs it has had.
	Jobs int64
	// Late, Overlapped and WhilePaused count occurrences without a job: too late, the last job not done, the
	// schedule paused.
	Late, Overlapped, WhilePaused int64
	// Past are its last ten occurrences, the oldest first. If many were too late at once, it has the last of them.
	Past []Occurrence
}

// Occurrence is one time at which a schedule was due, or at which Run pushed a job.
type Occurrence struct {
	At time.Time
	// Result is "ran" if it had a job, and "run now" if Run pushed it. Without a job of its own it is "late" if it was
	// too late, "overlapped" if the last job was not done, and "paused" if the schedule was paused.
	Result string
	Late   time.Duration // how late a server saw it
}

// Schedules are a Client's schedules: see Client.Schedules.
type Schedules struct{ c *Client }

// Schedules returns what manages schedules. It does not call Redis.
func (c *Client) Schedules() *Schedules { return &Schedules{c} }

// Set stores a schedule, or changes the one with that name, and returns its next occurrence. It takes effect
// at once, even if no server runs. If nothing changes, nothing is written. If the spec or its zone changes, the
// next occurrence is computed anew; otherwise it stays. Overdue occurrences of the old spec are treated as Missed
// says. A paused schedule stays paused.
//
// A wrong schedule is ErrInvalid; the message points at the faulty field of Cron. Set returns ErrExists if there is a job with the ID
// "{name}@schedule", under which it would be stored.
func (s *Schedules) Set(ctx context.Context, schedule Schedule) (next time.Time, err error) {
	checked, wrong := schedule.check()
	err = s.c.call(ctx, "set schedule", schedule.Name, wrong, func() error {
		next, _, err = s.put(ctx, checked)
		return err
	})
	return next, err
}

// checkedSchedule is a schedule as the store takes it.
type checkedSchedule struct {
	store.Schedule
	spec *cron.Spec
	zone *time.Location
}

func (s *Schedules) put(ctx context.Context, schedule checkedSchedule) (next time.Time, changed bool, err error) {
	at := s.c.fleet.Of(store.ScheduleID(schedule.Name))
	now, err := at.Time(ctx)
	if err != nil {
		return time.Time{}, false, err
	}
	now = now.Add(time.Millisecond - 1).Truncate(time.Millisecond) // as delays count
	next, changed, err = at.PutSchedule(ctx, schedule.Schedule, schedule.spec.Next(now.In(schedule.zone)))
	return next.In(schedule.zone), changed, err
}

func (s Schedule) check() (checked checkedSchedule, err error) {
	text := cron.Text(s.Cron, s.Every)
	o := pushOptions{Terms: store.Terms{Lifetime: store.DefaultLifetime}}
	s.Options.apply(&o)
	switch {
	case store.LacksUnit(s.Every):
		return checked, refusal("every", store.CheckUnit(s.Every))
	case s.Cron != "" && s.Every != 0:
		return checked, invalid("every", "it has no meaning together with cron")
	case text == "":
		return checked, invalid("cron", "it is empty, and so is every")
	case s.Jitter < 0 || s.Jitter > store.MaxDelay:
		return checked, invalid("jitter", fmt.Sprintf("%s is not from 0 to %s", duration.Format(s.Jitter), duration.Bound(store.MaxDelay)))
	}
	checked.Schedule = store.Schedule{
		Name: s.Name, Spec: text, Zone: cmp.Or(s.Zone, "UTC"), Topic: s.Topic, Body: s.Body, Jitter: s.Jitter, Terms: o.Terms,
		Missed: cmp.Or(s.Missed, store.MissedOnce), Overlap: cmp.Or(s.Overlap, store.OverlapAllow),
	}
	wrong := cmp.Or(checkScheduleName(s.Name), refusal("topic", store.CheckScheduleTopic(s.Topic)), checkPush(Message{Topic: s.Topic, Body: s.Body}, store.Due{}, &o), checkUnit("jitter", s.Jitter),
		checkChoice("missed", s.Missed, store.MissedOnce, store.MissedSkip, store.MissedAll), checkChoice("overlap", s.Overlap, store.OverlapAllow, store.OverlapSkip, store.OverlapFollow))
	if len(s.Headers) > 0 && wrong == nil {
		checked.Headers, wrong = headersText(s.Headers)
	}
	if wrong != nil {
		return checked, wrong
	}
	if checked.spec, err = cron.Parse(text); err != nil {
		return checked, invalid("cron", err.Error())
	}
	if checked.zone, err = cron.Zone(s.Zone); err != nil {
		return checked, invalid("zone", fmt.Sprintf("%q is not known here: want a name like Europe/Berlin; a program that runs on a host without time zones imports time/tzdata", s.Zone))
	}
	return checked, nil
}

func checkScheduleName(name string) error { return refusal("name", store.CheckScheduleName(name)) }

func checkChoice(field, choice string, choices ...string) error {
	if choice != "" && !slices.Contains(choices, choice) {
		return invalid(field, fmt.Sprintf("%q is not one of %q", choice, choices))
	}
	return nil
}

// SetAll makes these the schedules of owner: it stores new and changed ones as Set does, and removes all others of
// that owner. Schedules of other owners stay. So a program can define its schedules in code and set them when it
// starts. It returns the names of those that were stored or removed. An owner is a name of 1 to 200 bytes; the
// daemon's configuration file is "file". If one schedule is invalid, nothing is changed.
func (s *Schedules) SetAll(ctx context.Context, owner string, schedules []Schedule) (changed []string, err error) {
	checked, wrong := checkSchedules(owner, schedules)
	err = s.c.call(ctx, "set schedules", owner, wrong, func() error {
		keep := map[string]bool{}
		for _, one := range checked {
			keep[one.Name] = true
			_, did, err := s.put(ctx, one)
			if err != nil {
				return fmt.Errorf("%s: %w", store.Quote(one.Name), err)
			}
			if did {
				changed = append(changed, one.Name)
			}
		}
		stored, err := s.c.fleet.Schedules(ctx)
		for _, one := range stored {
			if one.Source == owner && !keep[one.Name] && err == nil {
				if _, err = s.remove(ctx, one.Name, owner); err == nil {
					changed = append(changed, one.Name)
				}
			}
		}
		return err
	})
	return changed, err
}

func checkSchedules(owner string, schedules []Schedule) (all []checkedSchedule, err error) {
	if owner == "" {
		return nil, invalid("owner", "it is empty")
	}
	if err := checkSize("owner", owner, store.MaxScheduleOwner); err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, s := range schedules {
		checked, err := s.check()
		if err == nil && names[s.Name] {
			err = invalid("name", "there are two schedules with it")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", store.Quote(s.Name), err)
		}
		checked.Source, names[s.Name] = owner, true
		all = append(all, checked)
	}
	return all, nil
}

// Remove deletes a schedule; its jobs stay. False means that there was no such schedule.
func (s *Schedules) Remove(ctx context.Context, name string) (removed bool, err error) {
	err = s.c.call(ctx, "remove schedule", name, checkScheduleName(name), func() error {
		removed, err = s.remove(ctx, name, "")
		return err
	})
	return removed, err
}

func (s *Schedules) remove(ctx context.Context, name, owner string) (removed bool, err error) {
	err = s.c.fleet.Of(store.ScheduleID(name)).RemoveSchedule(ctx, name, owner)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Pause lets occurrences pass without jobs until Resume. They are counted. It returns ErrNotFound if there is no
// such schedule.
func (s *Schedules) Pause(ctx context.Context, name string) error {
	return s.at(ctx, "pause schedule", name, func(at *store.Store) error { return at.PauseSchedule(ctx, name, true) })
}

// Resume ends a pause: the next occurrence has its job again. It returns ErrNotFound if there is no such schedule.
func (s *Schedules) Resume(ctx context.Context, name string) error {
	return s.at(ctx, "resume schedule", name, func(at *store.Store) error { return at.PauseSchedule(ctx, name, false) })
}

// Run pushes a job of the schedule now and returns its ID, also if the schedule is paused or the last job is not
// done; with Overlap "follow" the job follows the last one, or is that one, as at an occurrence. Later occurrences
// stay as they are. It returns ErrNotFound if there is no such schedule. After a lost reply, calling it again may
// push a second job.
func (s *Schedules) Run(ctx context.Context, name string) (id string, err error) {
	err = s.at(ctx, "run schedule", name, func(at *store.Store) error {
		id, err = at.RunSchedule(ctx, name)
		return err
	})
	return id, err
}

// at makes a call on a schedule in its partition.
func (s *Schedules) at(ctx context.Context, operation, name string, do func(*store.Store) error) error {
	return s.c.call(ctx, operation, name, checkScheduleName(name), func() error {
		return store.NoSuch("schedule", do(s.c.fleet.Of(store.ScheduleID(name))))
	})
}

// List returns all schedules, sorted by name. With an error it returns those of the partitions that can be read.
func (s *Schedules) List(ctx context.Context) (list []ScheduleInfo, err error) {
	err = s.c.call(ctx, "list schedules", "", nil, func() error {
		found, err := s.c.fleet.Schedules(ctx)
		list = each(found, scheduleInfo)
		return err
	})
	return list, err
}

func scheduleInfo(s store.Scheduled) ScheduleInfo {
	of := ScheduleInfo{
		Schedule: Schedule{Name: s.Name, Cron: s.Spec, Zone: s.Zone, Topic: s.Topic, Body: s.Body, Headers: store.HeadersOf(s.Headers), Missed: s.Missed, Overlap: s.Overlap, Jitter: s.Jitter,
			Options: JobOptions{s.MaxAttempts, s.TTR, s.Lifetime, s.Body == ""}},
		Owner: s.Source, Next: s.Next, Paused: s.Paused, LastID: s.LastID, Jobs: s.Ran,
		Late: s.NotRun.Late, Overlapped: s.NotRun.Overlapped, WhilePaused: s.NotRun.Paused,
		Past: each(s.Past, func(m store.Occurrence) Occurrence { return Occurrence{m.At, m.Outcome(), m.Late} }),
	}
	if spec, err := cron.Parse(s.Spec); err == nil && spec.Every() > 0 {
		of.Cron, of.Every = "", spec.Every()
	}
	return of
}
