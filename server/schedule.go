package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"
	_ "time/tzdata" // schedules have zones, be the host without

	"github.com/mix-basic/delayer/internal/cron"
	"github.com/mix-basic/delayer/internal/store"
)

const (
	// mostMissed is how many moments have a job at a time at most, of those that nobody saw in time.
	mostMissed = 100
	// skipAfter is how late a moment is too late for a schedule that skips these.
	skipAfter = time.Minute
	// remembered is how many moments a schedule remembers.
	remembered = 10
	// schedulesAtATime is how many schedules one script reads: half a millisecond.
	schedulesAtATime = 100
	// mendAfter is how soon it is looked for schedules that other servers have moved, where there are schedules. At each of them
	// it is looked once in a sweepAfter.
	mendAfter = 2 * time.Second
)

// fireSchedules fires the schedules among the due jobs, and returns the others.
func (p *pass) fireSchedules(found store.DueJobs) (rest store.DueJobs, err error) {
	rest = found
	rest.Batches = nil
	for i, b := range found.Batches {
		switch {
		case b.Topic != store.ScheduleTopic:
			if rest.Batches != nil {
				rest.Batches = append(rest.Batches, b)
			}
			continue
		case rest.Batches == nil:
			rest.Batches = slices.Clone(found.Batches[:i])
		}
		for ids := range slices.Chunk(b.IDs, schedulesAtATime) {
			others, err := p.fire(ids, found.Now)
			if err != nil {
				return rest, err
			}
			if len(others) > 0 {
				rest.Batches = append(rest.Batches, store.Batch{Topic: b.Topic, IDs: others, Fresh: b.Fresh})
			}
		}
	}
	if rest.Batches == nil {
		return found, nil
	}
	return rest, nil
}

// fire fires those of these IDs that are schedules, and returns the others.
func (p *pass) fire(ids store.IDs, now time.Time) (others store.IDs, err error) {
	var read store.Schedules
	err = p.timely(func(ctx context.Context, calls *store.Pipeline) (err error) {
		read, err = p.store.DueSchedules(ids).On(ctx, calls)
		return err
	})
	if err != nil || len(read.List) == 0 {
		return ids, err
	}
	firings := p.firingsOf(read.List, now)
	return notAmong(ids, read.List), p.timely(func(ctx context.Context, calls *store.Pipeline) (err error) {
		firing := make([]*store.Call[store.Fired], len(firings))
		for i, f := range firings {
			firing[i] = p.store.Fire(f, p.stuck.retryAt(now, i)).Send(calls)
		}
		calls.ReceiveAll(ctx)
		for i, call := range firing {
			fired, failed := call.Wait(ctx)
			err = cmp.Or(err, failed)
			p.enterFired(firings[i], fired, now)
		}
		return err
	})
}

// firingsOf are what the schedules lead to. After months without a server that takes a while, for which no exchange with Redis is to wait.
func (p *pass) firingsOf(list []store.Scheduled, now time.Time) []store.Firing {
	firings := make([]store.Firing, len(list))
	for i, s := range list {
		var err error
		firings[i], err = firingOf(s, now)
		p.outages.report(fmt.Sprintf("Schedule %s can't be read, its jobs are not pushed", store.Quote(s.Name)), err)
	}
	return firings
}

// notAmong are the IDs that are no schedules.
func notAmong(ids store.IDs, list []store.Scheduled) (others store.IDs) {
	if len(list) == len(ids) {
		return nil
	}
	for _, id := range ids {
		if !slices.ContainsFunc(list, func(s store.Scheduled) bool { return s.ID == string(id.([]byte)) }) {
			others = append(others, id)
		}
	}
	return others
}

// firingOf is what the schedule leads to now, by Redis's clock. With an error nobody knows: it is put off.
func firingOf(s store.Scheduled, now time.Time) (store.Firing, error) {
	f := store.Firing{Scheduled: s, Upcoming: s.Next}
	if s.Broken != nil {
		f.Unknown = true
		return f, s.Broken
	}
	if s.Next.IsZero() || s.Next.After(now) { // somebody has had it look earlier
		return f, nil
	}
	spec, err := cron.Parse(s.Spec)
	zone, wrong := cron.Zone(s.Zone)
	if err = cmp.Or(err, wrong); err != nil {
		f.Unknown = true
		return f, err
	}
	count, last, next := oldMoments(s)
	if !next.After(now) {
		newer, lastNewer, upcoming := spec.Moments(next.In(zone), now, mostMissed)
		count, last, next = count+newer, append(last, lastNewer...), upcoming
		last = last[max(len(last)-mostMissed, 0):]
	}
	f.Upcoming = next
	if count == 0 {
		return f, nil
	}
	run := runOf(s, last, now)
	if f.Late = count - run; !s.Paused.IsZero() {
		f.Late, f.Paused = 0, count
	}
	for i, at := range last[max(len(last)-max(run, remembered), 0):] {
		what := store.MomentRan
		switch {
		case !s.Paused.IsZero():
			what = store.MomentPaused
		case min(len(last), max(run, remembered))-i > run:
			what = store.MomentLate
		}
		f.Moments = append(f.Moments, store.FiredMoment{At: at, What: what, Due: at.Add(jitter(s.Jitter))})
	}
	return f, nil
}

// oldMoments are the overdue moments of specs that a schedule had: how many there are, the last of them, and the first one of its spec of
// today. A spec that can't be read has none.
func oldMoments(s store.Scheduled) (count int, last []time.Time, next time.Time) {
	next = s.Next
	for _, old := range s.Old {
		spec, err := cron.Parse(old.Spec)
		zone, wrong := cron.Zone(old.Zone)
		if err == nil && wrong == nil && !next.After(old.Until) {
			more, some, _ := spec.Moments(next.In(zone), old.Until, mostMissed)
			count, last = count+more, append(last, some...)
		}
		next = old.Then
	}
	return count, last, next
}

// runOf is how many of the last moments are to have a job.
func runOf(s store.Scheduled, last []time.Time, now time.Time) int {
	switch {
	case !s.Paused.IsZero():
		return 0
	case s.Missed == store.MissedAll:
		return len(last)
	case s.Missed == store.MissedSkip && now.Sub(last[len(last)-1]) > skipAfter:
		return 0
	}
	return 1
}

func jitter(most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	return rand.N(most)
}

// enterFired enters what came of a schedule that was due.
func (p *pass) enterFired(f store.Firing, fired store.Fired, now time.Time) {
	const trouble = "Schedules can't be fired"
	switch {
	case f.Unknown:
		p.nextBy(p.stuck.every)
	case fired.Refused != nil:
		p.stuck.putBack(trouble, 1, fired.Refused, now)
		p.nextBy(p.stuck.every)
	case fired.Done:
		p.moved = true
		p.stuck.over(trouble)
		p.cantPublish, p.woken = cmp.Or(p.cantPublish, fired.CantPublish), p.woken || fired.Woken
		if !f.Upcoming.IsZero() {
			p.nextBy(max(f.Upcoming.Sub(p.redisTime()), 0))
		}
		p.tellFired(f, fired, now)
	}
}

// tellFired tells observers and the log.
func (p *pass) tellFired(f store.Firing, fired store.Fired, now time.Time) {
	what := Fired{Schedule: f.Name, Topic: f.Topic, Jobs: fired.Ran, Late: f.Late, Overlapped: fired.Overlapped, Paused: f.Paused}
	var ids store.IDs // the others overlapped
	for _, m := range f.Moments {
		if m.What == store.MomentRan && len(ids) < fired.Ran {
			what.After = now.Sub(m.At)
			ids = append(ids, []byte(store.MomentID(f.Name, m.At)))
		}
	}
	p.observe(func(o Observer) {
		if o, ok := o.(ScheduleObserver); ok {
			o.Fired(what)
		}
	})
	if fired.Followed != "" {
		ids = store.IDs{[]byte(fired.Followed)}
	}
	if fired.Ran > 0 {
		logJobs(p.log, slog.LevelInfo, "Schedule has fired", f.Topic, ids)
	}
	p.notRun.count(f.Name, tooLate, f.Late)
	p.notRun.count(f.Name, overlaps, fired.Overlapped)
	p.notRun.count(f.Name, isPaused, f.Paused)
	p.notRun.tell(p.log)
}

// Why a moment has no job.
const (
	tooLate  = "no server was there in time"
	overlaps = "the job before is not done"
	isPaused = "the schedule is paused"
)

// notRunEvery is how often the log is told of moments of a schedule that have no job, at most.
const notRunEvery = time.Minute

// notRun are moments that have no job, by schedule and reason. What has been told is kept for notRunEvery.
type notRun map[[2]string]*moments

type moments struct {
	count int
	told  time.Time // zero if never
}

func (n notRun) count(schedule, why string, count int) {
	if count == 0 {
		return
	}
	of := [2]string{schedule, why}
	if n[of] == nil {
		n[of] = &moments{}
	}
	n[of].count += count
}

// tell tells the log of those that it has not been told of, some only in a while.
func (n notRun) tell(log *slog.Logger) {
	for of, m := range n {
		switch {
		case time.Since(m.told) < notRunEvery:
		case m.count == 0:
			delete(n, of)
		default:
			level := slog.LevelWarn
			if of[1] == isPaused {
				level = slog.LevelInfo
			}
			log.Log(context.Background(), level, fmt.Sprintf("Schedule %s, moments without a job: %d, as %s", store.Quote(of[0]), m.count, of[1]))
			m.count, m.told = 0, time.Now()
		}
	}
}

// mendSchedules puts schedules back that a server has moved which doesn't know what they are, as the original's does.
func (m *mover) mendSchedules() *sweep {
	var last string
	var began time.Time // the last look at all
	w := &sweep{turn: topicsTurn, outages: m.outages, repairs: true, failing: "It can't be looked for schedules that another server has moved; they are fired all the same"}
	w.page = func(ctx context.Context, first bool) (bool, error) {
		all := !first
		if first {
			last = ""
			if all = time.Since(began) >= sweepAfter; all {
				began = time.Now()
			}
		}
		mended, err := m.store.MendSchedules(ctx, last, all)
		for _, name := range mended.Names {
			m.log.Warn(fmt.Sprintf("Schedule %s was moved by a server that does not know schedules, it is put back", store.Quote(name)))
		}
		if len(mended.Names) > 0 {
			m.putBack = true
		}
		if w.after = 0; mended.All > 0 {
			w.after = mendAfter
		}
		last = mended.Last
		m.notRun.tell(m.log)
		return last != "", err
	}
	return w
}
