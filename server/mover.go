package server

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// mover moves the due jobs of one store. Its fields belong to the goroutine of its loop, except where a mutex or an
// atomic says otherwise.
type mover struct {
	server     *Server
	number     int
	store      *store.Store
	firstDue   string       // the channel on which pushes announce the next due job
	log        *slog.Logger // see fleet.Logger
	outages    *outages
	batch      batchSize
	stuck      stuckJobs
	withoutJob occurrencesWithoutJob
	sweeps     []*sweep
	sweeping   bool  // a sweep is in progress
	pass       *pass // in progress, or about to begin
	failing    bool  // the last pass failed
	putBack    bool  // repaired schedules may be due: a pass fires them before a server that does not know schedules moves them again

	now   time.Time // when due jobs were last read, by Redis's clock
	asked time.Time // the same by our clock, or slightly earlier

	missesPushes atomic.Bool  // it runs without a subscription
	standby      atomic.Bool  // another server should move the jobs: see prefer
	acked        atomic.Int64 // acknowledged jobs; see ackedElsewhere

	loop atomic.Pointer[loop] // nil before the first Run
	mu   sync.Mutex
	due  time.Time // of the next pass, see passAt; zero: never
}

func newMover(s *Server, number int, jobs *store.Store, log *slog.Logger, outages *outages) *mover {
	m := &mover{server: s, number: number, store: jobs, firstDue: jobs.Keys().FirstDue(), log: log, outages: outages, stuck: newStuckJobs(outages), withoutJob: occurrencesWithoutJob{}}
	// Redis does two things of this size in a row: it moves one batch and finds the next. The last quarter of the
	// budget is for what a script cannot measure: reading the call and writing the reply.
	m.batch = batchSize{budget: s.options.StallBudget * 3 / 8, current: firstBatch}
	m.sweeps = append(m.sweeps, m.sweepDead(), m.sweepTopics(), m.repairSchedules())
	return m
}

func (m *mover) named(err error) error { return m.server.fleet.Named(m.number, err) }

// once makes a pass and does all other work of a server once.
func (m *mover) once(ctx, work context.Context) error {
	if _, err := m.passOnce(ctx, work); err != nil {
		return err
	}
	m.keepAllPaused(work)
	for _, w := range m.sweeps {
		w.all(work)
	}
	if !m.putBack {
		return nil
	}
	m.putBack = false
	_, err := m.passOnce(ctx, work)
	return err
}

// goOnSweeping continues the sweeps that are due. On standby it only repairs, because the other server may be dead.
func (m *mover) goOnSweeping(work context.Context) {
	m.sweeping = false
	for _, w := range m.sweeps {
		isDue := w.underWay || time.Since(w.ended) >= cmp.Or(w.after, sweepAfter)
		if isDue && (w.repairs || !m.standby.Load()) {
			w.goOn(work)
			m.sweeping = m.sweeping || w.underWay
		}
	}
	if m.putBack {
		m.putBack, m.pass = false, m.newPass(work)
	}
}

// nextPass is when the next pass is due, after one that began at started. Of several movers that hear of pushes, some
// have a turn in each interval. After a failed pass a due job does not make it earlier: that pass would fail too.
func (m *mover) nextPass(started, job time.Time, err error) time.Time {
	next := later(started.Add(m.server.options.Interval), m.turnAfter(started))
	if err != nil || m.missesPushes.Load() {
		next = started.Add(m.server.polledInterval())
	}
	if err == nil && !job.IsZero() && job.Before(next) {
		next = job
	}
	if soon := time.Now().Add(goOnSoon); err == nil && m.sweeping && soon.Before(next) {
		next = soon
	}
	return later(next, time.Now().Add(minWait))
}

// turnAfter is the mover's first turn after t. The turns of the movers are spread over lastTurn intervals, or over as many
// intervals as there are movers, if that is less.
func (m *mover) turnAfter(t time.Time) time.Time {
	turns, every, began := min(len(m.server.movers), lastTurn), m.server.polledInterval(), m.loop.Load().began
	cycle := time.Duration(turns) * every
	at := time.Duration(m.number%turns) * every
	return began.Add((t.Sub(began)-at+cycle)/cycle*cycle + at)
}

// passBy plans a pass no later than t; see passAt.
func (m *mover) passBy(t time.Time) {
	m.mu.Lock()
	m.due = earlier(m.due, t)
	m.mu.Unlock()
	m.ring()
}

// passAt is when the next pass begins, on standby takeOverAfter later than it is due; zero: never.
func (m *mover) passAt() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.due.IsZero() || !m.standby.Load() {
		return m.due
	}
	return m.due.Add(takeOverAfter)
}

func (m *mover) ring() {
	if l, at := m.loop.Load(), m.passAt(); l != nil && !at.IsZero() {
		l.timer.wakeBy(at)
	}
}

func (m *mover) awake() {
	m.mu.Lock()
	m.due = time.Time{}
	m.mu.Unlock()
}

func (m *mover) redisTime() time.Time { return m.now.Add(time.Since(m.asked)) }

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
