package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"
	_ "time/tzdata" // for hosts without a time zone database

	"github.com/mix-basic/delayer/internal/cron"
	"github.com/mix-basic/delayer/internal/store"
)

const (
	// maxMissed is the most missed occurrences that get a job at a time.
	maxMissed = 100
	// skipAfter is how late an occurrence may be under MissedSkip.
	skipAfter = time.Minute
	// occurrencesKept is how many of its last occurrences a schedule remembers.
	occurrencesKept = 10
	// schedulesAtATime is how many schedules one script reads, in half a millisecond.
	schedulesAtATime = 100
	// firstFirings is how many schedules the first call of a pass fires at most. The next call fires up to twice as many as this one
	// had time for.
	firstFirings = 25
	// repairAfter is how often a store with schedules is checked for ones that other servers have moved. Every schedule is
	// checked once in sweepAfter.
	repairAfter = 2 * time.Second
)

// dueSchedules are the due schedules of a pass that it has not fired yet. There is at least one.
type dueSchedules struct {
	unread []foundSchedule
	read   []firing // fired first
	most   int      // fired in one call
}

type foundSchedule struct {
	id    any // an element of store.IDs
	fresh bool
}

type firing struct {
	store.Firing
	fresh bool
}

// count counts them by kind, for reads that skip what is known.
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

// takeSchedules takes the schedules out of the batches that were read.
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

// fire fires some of the schedules, in half of the stall budget, and reads the next ones. Due jobs are moved before it continues.
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
			firing = p.mover.store.Fire(firings, p.mover.stuck.retryAt(p.mover.now, 0), p.mover.server.options.StallBudget/2).Send(calls)
		}
		if len(next) > 0 {
			reading = p.mover.store.DueSchedules(next).Send(calls)
		}
		fired, err = firing.Wait(ctx)
		if err == nil {
			read, err = reading.Wait(ctx)
		}
		return err
	})
	p.cantPublish, p.woken = cmp.Or(p.cantPublish, fired.CantPublish), p.woken || fired.Woken
	for i, one := range fired.Fired {
		p.recordFired(firings[i], one)
	}
	p.mover.withoutJob.log(p.mover.log)
	if n := len(fired.Fired); n > 0 {
		d.read, d.most = d.read[n:], min(2*n, schedulesAtATime)
	}
	if err == nil && len(next) > 0 {
		p.addRead(d.unread[:len(next)], read.List)
		d.unread = d.unread[len(next):]
	}
	return err
}

// addRead prepares the schedules that were read for firing. Jobs that somebody pushed to the schedules' topic are moved like any
// other. It makes no call, because computing the occurrences of months without a server takes a while.
func (p *pass) addRead(due []foundSchedule, schedules []store.Scheduled) {
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
		f, err := firingOf(scheduled, p.mover.now)
		trouble := fmt.Sprintf("Schedule %s can't be read, its jobs are not pushed", store.Quote(scheduled.Name))
		if err != nil {
			p.mover.stuck.report(trouble, err, p.mover.now)
		} else {
			p.mover.stuck.over(trouble)
		}
		p.schedules.read = append(p.schedules.read, firing{f, s.fresh})
	}
}

// firingOf computes the occurrences of a schedule until now, by Redis's clock. With an error they are unknown, and the schedule is
// tried again later.
func firingOf(s store.Scheduled, now time.Time) (store.Firing, error) {
	f := store.Firing{Scheduled: s, Upcoming: s.Next}
	if s.Broken != nil {
		f.Unknown = true
		return f, s.Broken
	}
	if s.Next.IsZero() || s.Next.After(now) { // somebody set it due too early
		return f, nil
	}
	spec, err := cron.Parse(s.Spec)
	zone, wrong := cron.Zone(s.Zone)
	if err = cmp.Or(err, wrong); err != nil {
		f.Unknown = true
		return f, err
	}
	count, last, next := oldOccurrences(s)
	if !next.After(now) {
		newer, lastNewer, upcoming := spec.Occurrences(next.In(zone), now, maxMissed)
		count, last, next = count+newer, append(last, lastNewer...), upcoming
		last = last[max(len(last)-maxMissed, 0):]
	}
	f.Upcoming = next
	if count == 0 {
		return f, nil
	}
	run := runOf(s, last, now)
	if f.Late = count - run; !s.Paused.IsZero() {
		f.Late, f.Paused = 0, count
	}
	for i, at := range last[max(len(last)-max(run, occurrencesKept), 0):] {
		what := store.OccurrenceRan
		switch {
		case !s.Paused.IsZero():
			what = store.OccurrencePaused
		case min(len(last), max(run, occurrencesKept))-i > run:
			what = store.OccurrenceLate
		}
		f.Occurrences = append(f.Occurrences, store.FiredOccurrence{At: at, What: what, Due: at.Add(jitter(s.Jitter))})
	}
	return f, nil
}

// oldOccurrences are the overdue occurrences under earlier specs of a schedule: their number, the last of them, and the first
// occurrence under the current spec. A spec that cannot be parsed has none.
func oldOccurrences(s store.Scheduled) (count int, last []time.Time, next time.Time) {
	next = s.Next
	for _, old := range s.Old {
		spec, err := cron.Parse(old.Spec)
		zone, wrong := cron.Zone(old.Zone)
		if err == nil && wrong == nil && !next.After(old.Until) {
			more, some, _ := spec.Occurrences(next.In(zone), old.Until, maxMissed)
			count, last = count+more, append(last, some...)
		}
		next = old.Then
	}
	return count, last, next
}

// runOf is how many of the last occurrences get a job.
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

func (p *pass) recordFired(f store.Firing, fired store.Fired) {
	const trouble = "Schedules can't be fired"
	switch {
	case f.Unknown:
		p.nextBy(p.mover.stuck.every)
	case fired.Refused != nil:
		p.mover.stuck.putBack(trouble, 1, fired.Refused, p.mover.now)
		p.nextBy(p.mover.stuck.every)
	case fired.Done:
		p.moved = true
		p.mover.stuck.over(trouble)
		if !f.Upcoming.IsZero() {
			p.nextBy(max(f.Upcoming.Sub(p.mover.redisTime()), 0))
		}
		p.reportFired(f, fired)
	}
}

func (p *pass) reportFired(f store.Firing, fired store.Fired) {
	what := Fired{Schedule: f.Name, Topic: f.Topic, Jobs: fired.Ran, Late: f.Late, Overlapped: fired.Overlapped, Paused: f.Paused}
	var ids store.IDs // the others overlapped
	for _, m := range f.Occurrences {
		if m.What == store.OccurrenceRan && len(ids) < fired.Ran {
			what.After = p.mover.now.Sub(m.At)
			ids = append(ids, []byte(store.OccurrenceID(f.Name, m.At)))
		}
	}
	if hook := p.mover.server.options.Hooks.Fired; hook != nil {
		hook(what)
	}
	if fired.Followed != "" {
		ids = store.IDs{[]byte(fired.Followed)}
	}
	if fired.Ran > 0 {
		logJobs(p.mover.log, slog.LevelInfo, "Schedule has fired", f.Topic, ids)
	}
	p.mover.withoutJob.count(f.Name, tooLate, f.Late)
	p.mover.withoutJob.count(f.Name, overlaps, fired.Overlapped)
	p.mover.withoutJob.count(f.Name, isPaused, f.Paused)
}

// Why an occurrence has no job.
const (
	tooLate  = "no server ran in time"
	overlaps = "the previous job is not done"
	isPaused = "the schedule is paused"
)

// withoutJobEvery is how often occurrences without a job are logged for a schedule and reason.
const withoutJobEvery = time.Minute

// occurrencesWithoutJob counts occurrences without a job by schedule and reason. What was logged is kept for withoutJobEvery.
type occurrencesWithoutJob map[[2]string]*unloggedCount

type unloggedCount struct {
	count  int
	logged time.Time // the last time; zero if never
}

func (n occurrencesWithoutJob) count(schedule, why string, count int) {
	if count == 0 {
		return
	}
	of := [2]string{schedule, why}
	if n[of] == nil {
		n[of] = &unloggedCount{}
	}
	n[of].count += count
}

func (n occurrencesWithoutJob) log(to *slog.Logger) {
	for of, m := range n {
		switch {
		case time.Since(m.logged) < withoutJobEvery:
		case m.count == 0:
			delete(n, of)
		default:
			level := slog.LevelWarn
			if of[1] == isPaused {
				level = slog.LevelInfo
			}
			least := ""
			if m.count >= cron.MostCounted-maxMissed {
				least = "at least "
			}
			to.Log(context.Background(), level, fmt.Sprintf("Schedule %s, occurrences without a job: %s%d, because %s", store.Quote(of[0]), least, m.count, of[1]))
			m.count, m.logged = 0, time.Now()
		}
	}
}

// repairSchedules puts schedules back into the pool that a server without schedules, such as the original's, has moved.
func (m *mover) repairSchedules() *sweep {
	var last string
	var began time.Time // the last check of all schedules
	w := &sweep{turn: topicsTurn, outages: m.outages, repairs: true, failing: "Cannot check for schedules that another server has moved; they are fired all the same"}
	w.page = func(ctx context.Context, first bool) (bool, error) {
		all := !first
		if first {
			last = ""
			if all = time.Since(began) >= sweepAfter; all {
				began = time.Now()
			}
		}
		repaired, err := m.store.RepairSchedules(ctx, last, all)
		for _, name := range repaired.Names {
			m.log.Warn(fmt.Sprintf("Schedule %s was moved by a server that does not know schedules, and was restored", store.Quote(name)))
		}
		if len(repaired.Names) > 0 {
			m.putBack = true
		}
		if w.after = 0; repaired.All > 0 {
			w.after = repairAfter
		}
		last = repaired.Last
		m.withoutJob.log(m.log)
		return last != "", err
	}
	return w
}
