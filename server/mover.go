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

	missesPushes atomic.Bool // it runs without a subscription
	standby      standby
	acked        atomic.Int64 // acknowledged jobs; see ackedElsewhere

	node atomic.Pointer[node] // nil while the server does not run
	mu   sync.Mutex
	wake wake
}

// wake is when a mover has something to do. A zero time means never.
type wake struct {
	pass time.Time
	// peek is when to ask what falls due next, which costs less than a pass. From mayPeek on it may join a peek of
	// other movers.
	peek, mayPeek time.Time
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

// peeked plans what follows from a peek's answer. now is Redis's clock at our time ours; zero if the peek did not ask.
func (m *mover) peeked(now, ours time.Time, first store.First) {
	if !now.IsZero() {
		m.now, m.asked = now, ours
	}
	m.stuck.forget(m.redisTime())
	if first.Due.IsZero() {
		return
	}
	due := time.Now().Add(first.Due.Sub(m.redisTime()))
	switch m.standby.judge(first.ID, time.Since(due)) {
	case moveNow:
		m.passBy(due)
	case otherAtWork:
		m.peekBy(time.Now().Add(takeOverAfter/2), 0)
	case notYet:
		m.dueBy(due)
	}
}

// goOnSweeping continues the sweeps that are due. On standby it only repairs, because the other server may be dead.
func (m *mover) goOnSweeping(work context.Context) {
	m.sweeping = false
	for _, w := range m.sweeps {
		isDue := w.underWay || time.Since(w.ended) >= cmp.Or(w.after, sweepAfter)
		if isDue && (w.repairs || !m.standby.idle()) {
			w.goOn(work)
			m.sweeping = m.sweeping || w.underWay
		}
	}
	if m.putBack {
		m.putBack, m.pass = false, m.newPass(work)
	}
}

// plan sets when the next pass or peek is due, after a pass that began at started and failed with err, or found that the
// next job falls due at job.
func (m *mover) plan(started, job time.Time, err error) {
	if !m.peeks() || err != nil {
		m.passBy(m.nextPass(started, job, err))
		return
	}
	m.pollBy(m.nextPoll(started))
	if !job.IsZero() {
		m.dueBy(later(job, time.Now().Add(minWait)))
	}
}

// dueBy plans for a job that falls due at t.
func (m *mover) dueBy(t time.Time) {
	if m.standby.idle() {
		m.peekBy(t.Add(takeOverAfter), takeOverAfter/2)
	} else {
		m.passBy(t)
	}
}

// peeks reports whether it peeks first when no job is known to be due.
func (m *mover) peeks() bool { return len(m.movers) > 1 || m.standby.idle() }

// nextPass is when the next pass is due. After a failed pass a due job does not make it earlier: that pass would fail too.
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

// nextPoll is when to check again for due jobs although none is known. Movers that hear of pushes take turns: some of a
// node poll in each interval, and each polls at least every lastTurn intervals.
func (m *mover) nextPoll(started time.Time) time.Time {
	next := m.nextPass(started, time.Time{}, nil)
	if n := m.node.Load(); n != nil && !m.missesPushes.Load() && !m.sweeping {
		return later(next, n.turnOf(m, started))
	}
	return next
}

// pollBy checks for due jobs no later than t, with a peek that other movers' peeks can join, or with a pass.
func (m *mover) pollBy(t time.Time) {
	if m.peeks() {
		m.peekBy(t, m.polledInterval()/2)
	} else {
		m.passBy(t)
	}
}

// passBy makes a pass no later than t.
func (m *mover) passBy(t time.Time) {
	m.mu.Lock()
	m.wake.pass = earlier(m.wake.pass, t)
	m.mu.Unlock()
	m.ring(t)
}

// peekBy peeks no later than t, and up to early sooner if another mover peeks then.
func (m *mover) peekBy(t time.Time, early time.Duration) {
	m.mu.Lock()
	m.wake.peek, m.wake.mayPeek = earlier(m.wake.peek, t), earlier(m.wake.mayPeek, t.Add(-early))
	m.mu.Unlock()
	m.ring(t)
}

func (m *mover) ring(t time.Time) {
	if n := m.node.Load(); n != nil {
		n.timer.wakeBy(t)
	}
}

func (m *mover) wakes() wake {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wake
}

func (m *mover) awake() {
	m.mu.Lock()
	m.wake = wake{}
	m.mu.Unlock()
}

// leave cancels a planned pass, and plans to check whether the other server makes it.
func (m *mover) leave() {
	m.mu.Lock()
	m.wake.pass = time.Time{}
	m.mu.Unlock()
	m.peekBy(time.Now().Add(takeOverAfter/2), 0)
}

// peeking clears the planned peek and returns its time.
func (m *mover) peeking() (planned time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	planned = m.wake.peek
	m.wake.peek, m.wake.mayPeek = time.Time{}, time.Time{}
	return planned
}

func (m *mover) redisTime() time.Time { return m.now.Add(time.Since(m.asked)) }

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
