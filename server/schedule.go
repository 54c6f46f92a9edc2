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
	// firstFirings is how many are fired by the first call of a pass, at most. The next one has twice as many as were done in time.
	firstFirings = 25
	// mendAfter is how soon it is looked for schedules that other servers have moved, where there are schedules. At each of them
	// it is looked once in a sweepAfter.
	mendAfter = 2 * time.Second
)

// dueSchedules are the schedules, at least one, that a pass has found and not fired yet.
type dueSchedules struct {
	unread []foundSchedule
	read   []firing // these come first
	most   int      // of these are fired in one call
}

type foundSchedule struct {
	id    any // as one of store.IDs
	fresh bool
}

type firing struct {
	store.Firing
	fresh bool
}

// count counts them by kind: the look-ups leave out what was found.
func (d *dueSchedules) count() (all store.Counts) {
	fresh := 0
	for _, s := range d.unread {
		if s.fresh {
			fresh++
		}
	}
	for _, s := range d.read {
		if s.fresh {
			fresh++
		}
	}
	return store.Counts{Backlog: len(d.unread) + len(d.read) - fresh, Fresh: fresh}
}

// takeSchedules moves the schedules from the batches that were found to p.schedules.
func (p *pass) takeSchedules() {
	isOne := func(b store.Batch) bool { return b.Topic == store.ScheduleTopic }
	if !slices.ContainsFunc(p.found.Batches, isOne) {
		return
	}
	if p.schedules == nil {
		p.schedules = &dueSchedules{}
	}
	for _, b := range p.found.Batches {
		if isOne(b) {
			for _, id := range b.IDs {
				p.schedules.unread = append(p.schedules.unread, foundSchedule{id, b.Fresh})
			}
		}
	}
	p.found.Batches = slices.DeleteFunc(slices.Clone(p.found.Batches), isOne)
}

// fire fires some of the schedules that were found, in half of the stall budget, and reads what it takes to fire the next ones. Then it
// is the turn of the jobs that are due.
func (p *pass) fire() (err error) {
	if len(p.schedules.read) == 0 {
		err = p.fireAndRead()
	}
	if err == nil && len(p.schedules.read) > 0 {
		err = p.fireAndRead()
	}
	if len(p.schedules.unread)+len(p.schedules.read) == 0 {
		p.schedules = nil
	}
	return err
}

func (p *pass) fireAndRead() error {
	d := p.schedules
	var firings []store.Firing
	for _, f := range d.read[:min(len(d.read), cmp.Or(d.most, firstFirings))] {
		firings = append(firings, f.Firing)
	}
	var next store.IDs
	for _, s := range d.unread[:max(min(len(d.unread), schedulesAtATime-len(d.read)), 0)] {
		next = append(next, s.id)
	}
	var fired store.FiredAll
	var read store.Schedules
	err := p.timely(func(ctx context.Context, calls *store.Pipeline) (err error) {
		var firing *store.Call[store.FiredAll]
		var reading *store.Call[store.Schedules]
		if len(firings) > 0 {
			firing = p.store.Fire(firings, p.stuck.retryAt(p.now, 0), p.options.StallBudget/2).Send(calls)
		}
		if len(next) > 0 {
			reading = p.store.DueSchedules(next).Send(calls)
		}
		fired, err = firing.Wait(ctx)
		if err == nil {
			read, err = reading.Wait(ctx)
		}
		return err
	})
	p.cantPublish, p.woken = cmp.Or(p.cantPublish, fired.CantPublish), p.woken || fired.Woken
	for i, one := range fired.Fired {
		p.registerFired(firings[i], one)
	}
	p.notRun.tell(p.log)
	if n := len(fired.Fired); n > 0 {
		d.read, d.most = d.read[n:], min(2*n, schedulesAtATime)
	}
	if err == nil && len(next) > 0 {
		p.registerRead(d.unread[:len(next)], read.List)
		d.unread = d.unread[len(next):]
	}
	return err
}

// registerRead registers those of some due ones that are schedules. Jobs that somebody has pushed to their topic are moved as others are. To tell
// what a schedule leads to takes a while after months without a server, for which no exchange with Redis is to wait.
func (p *pass) registerRead(due []foundSchedule, schedules []store.Scheduled) {
	byID := make(map[string]store.Scheduled, len(schedules))
	for _, s := range schedules {
		byID[s.ID] = s
	}
	for _, s := range due {
		scheduled, is := byID[string(s.id.([]byte))]
		if !is {
			p.found.Batches = append(p.found.Batches, store.Batch{Topic: store.ScheduleTopic, IDs: store.IDs{s.id}, Fresh: s.fresh})
			continue
		}
		f, err := firingOf(scheduled, p.now)
		p.outages.report(fmt.Sprintf("Schedule %s can't be read, its jobs are not pushed", store.Quote(scheduled.Name)), err)
		p.schedules.read = append(p.schedules.read, firing{f, s.fresh})
	}
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

// registerFired registers what came of a schedule that was due.
func (p *pass) registerFired(f store.Firing, fired store.Fired) {
	const trouble = "Schedules can't be fired"
	switch {
	case f.Unknown:
		p.nextBy(p.stuck.every)
	case fired.Refused != nil:
		p.stuck.putBack(trouble, 1, fired.Refused, p.now)
		p.nextBy(p.stuck.every)
	case fired.Done:
		p.moved = true
		p.stuck.over(trouble)
		if !f.Upcoming.IsZero() {
			p.nextBy(max(f.Upcoming.Sub(p.redisTime()), 0))
		}
		p.tellFired(f, fired)
	}
}

// tellFired tells observers and the log.
func (p *pass) tellFired(f store.Firing, fired store.Fired) {
	what := Fired{Schedule: f.Name, Topic: f.Topic, Jobs: fired.Ran, Late: f.Late, Overlapped: fired.Overlapped, Paused: f.Paused}
	var ids store.IDs // the others overlapped
	for _, m := range f.Moments {
		if m.What == store.MomentRan && len(ids) < fired.Ran {
			what.After = p.now.Sub(m.At)
			ids = append(ids, []byte(store.MomentID(f.Name, m.At)))
		}
	}
	p.observe(func(o Observer) { o.Fired(what) })
	if fired.Followed != "" {
		ids = store.IDs{[]byte(fired.Followed)}
	}
	if fired.Ran > 0 {
		logJobs(p.log, slog.LevelInfo, "Schedule has fired", f.Topic, ids)
	}
	p.notRun.count(f.Name, tooLate, f.Late)
	p.notRun.count(f.Name, overlaps, fired.Overlapped)
	p.notRun.count(f.Name, isPaused, f.Paused)
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
