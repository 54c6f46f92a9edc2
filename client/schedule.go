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

// Schedule is a periodic job: at each occurrence a server pushes a job to Topic with Body. Any number of servers
// push exactly one. Its ID is "{name}@2026-11-23T07:00:00Z", with the occurrence in UTC, except under
// OverlapFollow.
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
	// Missed says what happens with occurrences that passed while no server ran or Redis was away. Empty means
	// MissedOnce.
	Missed Missed
	// Overlap says what happens at an occurrence while the previous job is not done. Empty means OverlapAllow.
	Overlap Overlap
	// Jitter is the most that a job is delayed at random. 0 means not at all.
	Jitter time.Duration
	// Options apply to each job: ReadyMaxLifetime, MaxAttempts, TTR and EmptyBody.
	Options []PushOption
}

// Missed says what happens with missed occurrences. Those without a job are counted and logged by the server.
type Missed string

// The choices for Missed.
const (
	MissedOnce Missed = store.MissedOnce // the last one gets a job at once
	MissedSkip Missed = store.MissedSkip // the last one gets a job unless it is more than a minute late
	MissedAll  Missed = store.MissedAll  // the last 100 get jobs at once
)

// Overlap says what happens at an occurrence while the last job is waiting, ready or reserved.
type Overlap string

// The choices for Overlap.
const (
	OverlapAllow Overlap = store.OverlapAllow // the occurrence has its job all the same
	OverlapSkip  Overlap = store.OverlapSkip  // the occurrence has none, and is counted

	// OverlapFollow never has two jobs running at a time, and begins one after each occurrence. If a consumer has
	// begun the last job, the occurrence's job is delivered when that one is done, under the last job's ID, like a
	// push with Follow; of several such occurrences the newest counts. If nobody has begun the last job yet, it
	// serves this occurrence too. Occurrences without a job of their own count as overlapped.
	OverlapFollow Overlap = store.OverlapFollow
)

// Scheduled is a schedule and its history.
type Scheduled struct {
	// Schedule can be passed to Client.Schedule again. It has either Cron or Every.
	Schedule
	// ReadyMaxLifetime, MaxAttempts and TTR come from its Options; the last two are 0 if not set.
	ReadyMaxLifetime time.Duration
	MaxAttempts      int
	TTR              time.Duration
	// Owner is who keeps it, see SetSchedules; empty if nobody does.
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

// Occurrence is one time at which a schedule was due.
type Occurrence struct {
	At     time.Time
	Result OccurrenceResult
	Late   time.Duration // how late a server saw it
}

// OccurrenceResult is the result of an Occurrence.
type OccurrenceResult string

// The results of occurrences.
const (
	OccurrenceRan        OccurrenceResult = "ran"        // it had a job
	OccurrenceRunNow     OccurrenceResult = "run now"    // RunNow pushed one
	OccurrenceLate       OccurrenceResult = "late"       // it had no job: it was too late
	OccurrenceOverlapped OccurrenceResult = "overlapped" // it had no job of its own: the last one was not done
	OccurrencePaused     OccurrenceResult = "paused"     // it had no job: the schedule was paused
)

// Schedule stores a schedule, or changes the one with that name, and returns its next occurrence. It takes effect
// at once, even if no server runs. If nothing changes, nothing is written. If the spec or its zone changes, the
// next occurrence is computed anew; otherwise it stays. Overdue occurrences of the old spec are treated as Missed
// says. A paused schedule stays paused.
//
// Mistakes are ErrInvalid, with their place in Cron. It returns ErrExists if there is a job with the ID
// "{name}@schedule", under which it would be stored.
func (c *Client) Schedule(ctx context.Context, s Schedule) (next time.Time, err error) {
	checked, wrong := s.check()
	err = c.call(ctx, "schedule", s.Name, wrong, func() error {
		next, _, err = c.putSchedule(ctx, checked)
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

func (c *Client) putSchedule(ctx context.Context, s checkedSchedule) (next time.Time, changed bool, err error) {
	at := c.fleet.Of(store.ScheduleID(s.Name))
	now, err := at.Time(ctx)
	if err != nil {
		return time.Time{}, false, err
	}
	now = now.Add(time.Millisecond - 1).Truncate(time.Millisecond) // as delays count
	next, changed, err = at.PutSchedule(ctx, s.Schedule, s.spec.Next(now.In(s.zone)))
	return next.In(s.zone), changed, err
}

func (s Schedule) check() (checked checkedSchedule, err error) {
	text := cron.Text(s.Cron, s.Every)
	o := pushOptions{Terms: store.Terms{Lifetime: DefaultReadyMaxLifetime}}.with(s.Options)
	switch {
	case store.LacksUnit(s.Every):
		return checked, refusal("every", store.CheckUnit(s.Every))
	case s.Cron != "" && s.Every != 0:
		return checked, invalid("every", "it has no meaning together with cron")
	case text == "":
		return checked, invalid("cron", "it is empty, and so is every")
	case o.Policy != "" || o.Replicas.N != 0 || o.group != nil:
		return checked, cmp.Or(o.wrong, invalid("option", "want ReadyMaxLifetime, MaxAttempts, TTR or EmptyBody"))
	case s.Jitter < 0 || s.Jitter > MaxDelay:
		return checked, invalid("jitter", fmt.Sprintf("%s is not from 0 to %s", duration.Format(s.Jitter), duration.Bound(MaxDelay)))
	}
	checked.Schedule = store.Schedule{
		Name: s.Name, Spec: text, Zone: cmp.Or(s.Zone, "UTC"), Topic: s.Topic, Body: s.Body, Jitter: s.Jitter, Terms: o.Terms,
		Missed: string(cmp.Or(s.Missed, MissedOnce)), Overlap: string(cmp.Or(s.Overlap, OverlapAllow)),
	}
	wrong := cmp.Or(checkScheduleName(s.Name), refusal("topic", store.CheckScheduleTopic(s.Topic)), checkPush(Message{Topic: s.Topic, Body: s.Body}, store.Due{}, &o), checkUnit("jitter", s.Jitter),
		checkChoice("missed", s.Missed, MissedOnce, MissedSkip, MissedAll), checkChoice("overlap", s.Overlap, OverlapAllow, OverlapSkip, OverlapFollow))
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

func checkChoice[T ~string](field string, choice T, choices ...T) error {
	if choice != "" && !slices.Contains(choices, choice) {
		return invalid(field, fmt.Sprintf("%q is not one of %q", string(choice), choices))
	}
	return nil
}

// SetSchedules makes these the schedules of owner: it stores new and changed ones as Schedule does, and deletes
// all others of that owner. Schedules of other owners stay. So a program can define its schedules in code and set
// them when it starts. It returns the names of those that were stored or deleted. An owner is a text of 1 to 200
// bytes; the daemon's configuration file is "file". If one schedule is invalid, nothing is changed.
func (c *Client) SetSchedules(ctx context.Context, owner string, schedules []Schedule) (changed []string, err error) {
	all, wrong := checkSchedules(owner, schedules)
	err = c.call(ctx, "set schedules", owner, wrong, func() error {
		keep := map[string]bool{}
		for _, s := range all {
			keep[s.Name] = true
			_, did, err := c.putSchedule(ctx, s)
			if err != nil {
				return fmt.Errorf("%s: %w", store.Quote(s.Name), err)
			}
			if did {
				changed = append(changed, s.Name)
			}
		}
		stored, err := c.fleet.Schedules(ctx)
		for _, s := range stored {
			if s.Source == owner && !keep[s.Name] && err == nil {
				if _, err = c.unschedule(ctx, s.Name, owner); err == nil {
					changed = append(changed, s.Name)
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

// Unschedule deletes a schedule; its jobs stay. False means that there was no such schedule.
func (c *Client) Unschedule(ctx context.Context, name string) (was bool, err error) {
	err = c.call(ctx, "unschedule", name, checkScheduleName(name), func() error {
		was, err = c.unschedule(ctx, name, "")
		return err
	})
	return was, err
}

func (c *Client) unschedule(ctx context.Context, name, owner string) (was bool, err error) {
	err = c.fleet.Of(store.ScheduleID(name)).RemoveSchedule(ctx, name, owner)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// PauseSchedule lets occurrences pass without jobs until ResumeSchedule. They are counted. It returns ErrNotFound
// if there is no such schedule.
func (c *Client) PauseSchedule(ctx context.Context, name string) error {
	return c.onSchedule(ctx, "pause schedule", name, func(s *store.Store) error { return s.PauseSchedule(ctx, name, true) })
}

// ResumeSchedule ends a pause: the next occurrence has its job again. It returns ErrNotFound if there is no such
// schedule.
func (c *Client) ResumeSchedule(ctx context.Context, name string) error {
	return c.onSchedule(ctx, "resume schedule", name, func(s *store.Store) error { return s.PauseSchedule(ctx, name, false) })
}

// RunNow pushes a job of the schedule now and returns its ID, also if the schedule is paused or the last job is
// not done; with OverlapFollow the job follows the last one, or is that one, as at an occurrence. Later
// occurrences stay as they are. It returns ErrNotFound if there is no such schedule. After a lost reply, calling
// it again may push a second job.
func (c *Client) RunNow(ctx context.Context, name string) (id string, err error) {
	err = c.onSchedule(ctx, "run now", name, func(s *store.Store) error {
		id, err = s.RunSchedule(ctx, name)
		return err
	})
	return id, err
}

// onSchedule makes a call on a schedule in its partition.
func (c *Client) onSchedule(ctx context.Context, operation, name string, do func(*store.Store) error) error {
	return c.call(ctx, operation, name, checkScheduleName(name), func() error {
		return store.NoSuch("schedule", do(c.fleet.Of(store.ScheduleID(name))))
	})
}

// Schedules returns all schedules, sorted by name. With an error it returns those of the partitions that can be
// read.
func (c *Client) Schedules(ctx context.Context) (schedules []Scheduled, err error) {
	err = c.call(ctx, "schedules", "", nil, func() error {
		all, err := c.fleet.Schedules(ctx)
		schedules = each(all, scheduledOf)
		return err
	})
	return schedules, err
}

func scheduledOf(s store.Scheduled) Scheduled {
	of := Scheduled{
		Schedule: Schedule{Name: s.Name, Cron: s.Spec, Zone: s.Zone, Topic: s.Topic, Body: s.Body, Headers: store.HeadersOf(s.Headers), Missed: Missed(s.Missed), Overlap: Overlap(s.Overlap), Jitter: s.Jitter,
			Options: []PushOption{ReadyMaxLifetime(s.Lifetime)}},
		ReadyMaxLifetime: s.Lifetime, MaxAttempts: s.MaxAttempts, TTR: s.TTR, Owner: s.Source, Next: s.Next, Paused: s.Paused, LastID: s.LastID, Jobs: s.Ran,
		Late: s.NotRun.Late, Overlapped: s.NotRun.Overlapped, WhilePaused: s.NotRun.Paused,
		Past: each(s.Past, func(m store.Occurrence) Occurrence { return Occurrence{m.At, OccurrenceResult(m.Outcome()), m.Late} }),
	}
	if spec, err := cron.Parse(s.Spec); err == nil && spec.Every() > 0 {
		of.Cron, of.Every = "", spec.Every()
	}
	if s.MaxAttempts > 0 {
		of.Options = append(of.Options, MaxAttempts(s.MaxAttempts))
	}
	if s.TTR > 0 {
		of.Options = append(of.Options, TTR(s.TTR))
	}
	if s.Body == "" {
		of.Options = append(of.Options, EmptyBody())
	}
	return of
}
