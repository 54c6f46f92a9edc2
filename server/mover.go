package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// mover moves the due jobs of one partition. Its fields belong to the goroutine of its node, except where a mutex or an
// atomic says otherwise.
type mover struct {
	*Server
	number     int
	store      *store.Store
	firstDue   string       // the channel on which pushes announce the next due job
	log        *slog.Logger // names the partition if there are several
	outages    *outages
	batch      batchSize
	stuck      stuckJobs
	withoutJob occurrencesWithoutJob
	sweeps     []*sweep
	sweeping   bool   // a sweep is in progress
	pausedAt   string // the next page of paused topics in a pausesWalk; "" after the last
	pass       *pass  // in progress, or about to begin
	failing    bool   // the last pass failed
	putBack    bool   // repaired schedules may be due: a pass fires them before a server that does not know schedules moves them again

	now   time.Time // when due jobs were last read, by Redis's clock
	asked time.Time // the same by our clock, or slightly earlier

	missesPushes atomic.Bool  // it runs without a subscription
	standby      atomic.Bool  // another server should move the jobs: see prefer
	acked        atomic.Int64 // acknowledged jobs; see ackedElsewhere

	node atomic.Pointer[node] // nil while the server does not run
	mu   sync.Mutex
	due  time.Time // of the next pass, see passAt; zero: never
}

func newMover(s *Server, number int, partition *store.Store, log *slog.Logger, outages *outages) *mover {
	m := &mover{Server: s, number: number, store: partition, firstDue: partition.Keys().FirstDue(), log: log, outages: outages, stuck: newStuckJobs(outages), withoutJob: occurrencesWithoutJob{}}
	// Redis does two things of this size in a row: it moves one batch and finds the next. The last quarter of the
	// budget is for what a script cannot measure: reading the call and writing the reply.
	m.batch = batchSize{budget: s.options.StallBudget * 3 / 8, current: firstBatch}
	m.sweeps = append(m.sweeps, m.sweepDead(), m.sweepTopics(), m.repairSchedules())
	return m
}

// named adds the partition to an error, if there are several.
func (m *mover) named(err error) error {
	if err == nil || len(m.movers) == 1 {
		return err
	}
	return fmt.Errorf("partition %d: %w", m.number, err)
}

// once makes a pass and does all other work of a server once.
func (m *mover) once(ctx, work context.Context) error {
	if _, err := m.passOnce(ctx, work); err != nil {
		return err
	}
	m.outages.reportMinor(pausesFail, m.keepAllPaused(work), false)
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

// nextPass is when the next pass is due, after one that began at started. Of several movers that hear of pushes, some of a
// node have a turn in each interval. After a failed pass a due job does not make it earlier: that pass would fail too.
func (m *mover) nextPass(started, job time.Time, err error) time.Time {
	next := started.Add(m.options.Interval)
	if m.missesPushes.Load() {
		next = started.Add(m.polledInterval())
	} else if n := m.node.Load(); n != nil && err == nil {
		next = later(next, n.turnOf(m, started))
	}
	if err == nil && !job.IsZero() && job.Before(next) {
		next = job
	}
	if soon := time.Now().Add(goOnSoon); err == nil && m.sweeping && soon.Before(next) {
		next = soon
	}
	return later(next, time.Now().Add(minWait))
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
	if n, at := m.node.Load(), m.passAt(); n != nil && !at.IsZero() {
		n.timer.wakeBy(at)
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
