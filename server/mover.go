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

// mover moves the due jobs of one partition. It is its node's: see there.
type mover struct {
	*Server
	number   int
	store    *store.Store
	log      *slog.Logger // names the partition if there are several
	outages  *outages
	batch    batchSize
	stuck    stuckJobs
	notRun   notRun
	sweeps   []*sweep
	sweeping bool  // a sweep is under way
	pass     *pass // that is under way, or is to begin at once
	failing  bool  // the last pass failed
	putBack  bool  // schedules were repaired that may be due: a pass fires them before a server that does not know them moves them again

	now   time.Time // when jobs were found last, by Redis's clock
	asked time.Time // the same by ours, or a little before

	missesPushes atomic.Bool // it runs, and has no subscription
	standBy      standBy
	acked        atomic.Int64 // jobs, see ackedElsewhere

	node atomic.Pointer[node] // that it is on while it runs
	mu   sync.Mutex
	wake wake
}

// wake is when a mover has something to do. Zero is never.
type wake struct {
	look time.Time // a pass
	// peek is when it is to be asked what falls due next, which is cheaper; mayPeek is from when on that
	// may be done together with others.
	peek, mayPeek time.Time
}

func newMover(s *Server, number int, partition *store.Store) *mover {
	log := slog.New(inPartition{s.log.Handler(), number})
	m := &mover{Server: s, number: number, store: partition, log: log, outages: newOutages(log)}
	// Redis does two things of that size one after the other: it moves a
	// batch and finds the next. The last quarter is for what a script
	// can't see: the reading of the call, the writing of the answer.
	m.batch = batchSize{budget: s.options.StallBudget * 3 / 8, current: firstBatch}
	m.stuck = newStuckJobs(m.outages)
	m.notRun = notRun{}
	if s.options.DeadMaxAge > 0 || s.options.DeadMax > 0 {
		m.sweeps = append(m.sweeps, m.sweepDead())
	}
	m.sweeps = append(m.sweeps, m.sweepTopics(), m.mendSchedules())
	if number == 0 {
		m.sweeps = append(m.sweeps, m.sweepLayout())
	}
	return m
}

// nameless makes it the only one: what is said of it is said of the server.
func (m *mover) nameless() {
	m.log, m.outages = m.Server.log, m.Server.outages
	m.stuck.outages = m.outages
	for _, w := range m.sweeps {
		w.outages = m.outages
	}
}

// named is an error that says in which partition it is, if there are several.
func (m *mover) named(err error) error {
	if err == nil || len(m.movers) == 1 {
		return err
	}
	return fmt.Errorf("partition %d: %w", m.number, err)
}

// once is a pass, and all that is done beside it.
func (m *mover) once(ctx, work context.Context) error {
	if _, err := m.passOnce(ctx, work); err != nil {
		return err
	}
	m.outages.aside(pausesFail, m.keepAllPaused(work), false)
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

// peeked enters what a peek has found. now is what Redis's clock said at about that time of ours, zero if it was not asked.
func (m *mover) peeked(now, ours time.Time, first store.First) {
	if !now.IsZero() {
		m.now, m.asked = now, ours
	}
	m.stuck.forget(m.redisTime())
	if first.Due.IsZero() {
		return
	}
	due := time.Now().Add(first.Due.Sub(m.redisTime()))
	switch m.standBy.judge(first.ID, time.Since(due)) {
	case itIsTime:
		m.lookBy(due)
	case somebodyWorks:
		m.peekBy(time.Now().Add(standInAfter/2), 0)
	case itIsEarly:
		m.dueBy(due)
	}
}

// spreadSweeps has the movers sweep one after the other, so that they do not so all at once. The first one begins at once.
func (m *mover) spreadSweeps(now time.Time) {
	for _, w := range m.sweeps {
		w.ended = now.Add(time.Duration(m.number)*sweepAfter/time.Duration(len(m.movers)) - sweepAfter)
	}
}

// goOnSweeping takes turns of the sweeps that are due. In standby it only repairs, because the other server may be dead.
func (m *mover) goOnSweeping(work context.Context) {
	m.sweeping = false
	for _, w := range m.sweeps {
		isDue := w.underWay || time.Since(w.ended) >= cmp.Or(w.after, sweepAfter)
		if isDue && (w.repairs || !m.standBy.idle()) {
			w.goOn(work)
			m.sweeping = m.sweeping || w.underWay
		}
	}
	if m.putBack {
		m.putBack, m.pass = false, m.newPass(work)
	}
}

// plan sets when it has to do something again. The last time began when started is, and said when the next job
// falls due; or it failed.
func (m *mover) plan(started, job time.Time, err error) {
	if !m.peeks() || err != nil {
		m.lookBy(m.nextPass(started, job, err))
		return
	}
	m.tickBy(m.nextTick(started))
	if !job.IsZero() {
		m.dueBy(later(job, time.Now().Add(minWait)))
	}
}

// dueBy enters that a job falls due at t.
func (m *mover) dueBy(t time.Time) {
	if m.standBy.idle() {
		m.peekBy(t.Add(standInAfter), standInAfter/2)
	} else {
		m.lookBy(t)
	}
}

// peeks reports whether it peeks before it makes a pass where no job is known to be due.
func (m *mover) peeks() bool { return len(m.movers) > 1 || m.standBy.idle() }

// nextPass is when the pass is due that follows one. After a pass that failed
// it is not earlier because of a job: that would fail as well.
func (m *mover) nextPass(started, job time.Time, err error) time.Time {
	next := started.Add(m.options.Interval)
	if m.missesPushes.Load() {
		next = started.Add(m.polledInterval())
	}
	if err == nil && !job.IsZero() && job.Before(next) {
		next = job
	}
	if soon := time.Now().Add(goOnSoon); err == nil && m.sweeping && soon.Before(next) {
		next = soon
	}
	return later(next, time.Now().Add(minWait))
}

// nextTick is when it has to see again whether anything is due, though nothing is known to be. Of several movers on a node that hear of
// pushes some do so each time, and each does so every lastTurn-th time at the latest.
func (m *mover) nextTick(started time.Time) time.Time {
	next := m.nextPass(started, time.Time{}, nil)
	if n := m.node.Load(); n != nil && !m.missesPushes.Load() && !m.sweeping {
		return later(next, n.turnOf(m, started))
	}
	return next
}

// tickBy has it see by t whether anything is due. A peek waits for those of others.
func (m *mover) tickBy(t time.Time) {
	if m.peeks() {
		m.peekBy(t, m.polledInterval()/2)
	} else {
		m.lookBy(t)
	}
}

// lookBy has it make a pass at t or before.
func (m *mover) lookBy(t time.Time) {
	m.mu.Lock()
	m.wake.look = earlier(m.wake.look, t)
	m.mu.Unlock()
	m.ring(t)
}

// peekBy has it peek at t or before, by up to early.
func (m *mover) peekBy(t time.Time, early time.Duration) {
	m.mu.Lock()
	m.wake.peek, m.wake.mayPeek = earlier(m.wake.peek, t), earlier(m.wake.mayPeek, t.Add(-early))
	m.mu.Unlock()
	m.ring(t)
}

func (m *mover) ring(t time.Time) {
	if n := m.node.Load(); n != nil {
		n.alarm.wakeBy(t)
	}
}

// wakes is when it has something to do.
func (m *mover) wakes() wake {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wake
}

// awake forgets when it had something to do.
func (m *mover) awake() {
	m.mu.Lock()
	m.wake = wake{}
	m.mu.Unlock()
}

// leave has it make no pass that it was to make, but see whether another server does.
func (m *mover) leave() {
	m.mu.Lock()
	m.wake.look = time.Time{}
	m.mu.Unlock()
	m.peekBy(time.Now().Add(standInAfter/2), 0)
}

// peeking forgets when it was to peek, and returns that.
func (m *mover) peeking() (planned time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	planned = m.wake.peek
	m.wake.peek, m.wake.mayPeek = time.Time{}, time.Time{}
	return planned
}

// redisTime is about what Redis's clock says now.
func (m *mover) redisTime() time.Time { return m.now.Add(time.Since(m.asked)) }

// earlier is the earlier of both that are not zero.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
