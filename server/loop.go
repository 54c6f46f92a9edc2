package server

import (
	"context"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
)

// lastTurn is the most intervals between two passes of a mover that hears of pushes, while nothing falls due.
const lastTurn = 10

// loop runs the movers of one Redis: it makes one call at a time, and movers with a pass in progress take turns, so the stall budget holds for all of them
// together. In a cluster each mover has a loop of its own, wherever its slot is, and a few loops make calls at a time.
type loop struct {
	server    *Server
	movers    []*mover
	ctx, work context.Context // done at the stop; done when work in progress must end as well
	began     time.Time
	timer     *wakeTimer
	few       fleet.Few // of all loops; nil for one

	counted time.Time // when countAcked last ran
	worked  bool      // jobs were moved or acknowledged since
	pauses  pauses

	mu       sync.Mutex
	listener *store.Subscription // nil until the first one
}

// newLoops divides the movers among loops. Each makes a pass at once.
func (s *Server) newLoops(ctx, work context.Context) (loops []*loop) {
	began, groups := time.Now(), fleet.Sharing(s.fleet.Stores)
	var few fleet.Few
	if len(groups) > 1 {
		few = fleet.NewFew()
	}
	for _, numbers := range groups {
		l := &loop{server: s, ctx: ctx, work: work, began: began, timer: &wakeTimer{precise: newTimer()}, few: few, worked: true}
		for _, number := range numbers {
			m := s.movers[number]
			l.movers = append(l.movers, m)
			m.missesPushes.Store(true)
			m.loop.Store(l)
			m.passBy(began)
		}
		loops = append(loops, l)
	}
	return loops
}

// run runs the movers until the stop.
func (l *loop) run() {
	defer l.timer.precise.close()
	defer context.AfterFunc(l.ctx, func() { l.timer.wakeBy(time.Now()) })()
	defer l.endPasses()
	for l.ctx.Err() == nil {
		l.round()
		if l.work.Err() != nil {
			return
		}
		if next, now := l.next(); !now {
			l.timer.sleepUntil(next)
		}
	}
}

// endPasses ends the passes in progress, so that what they did is logged.
func (l *loop) endPasses() {
	for _, m := range l.movers {
		if m.pass != nil {
			m.pass.end(l.ctx, nil)
			m.pass = nil
		}
	}
}

// round makes one call for each mover that is due or has a pass in progress. If Redis does not respond one, other calls of the round would wait for it, too,
// and are left out.
func (l *loop) round() {
	started, answers := time.Now(), true
	for _, m := range l.movers {
		if m.pass == nil && !isBy(m.passAt(), started) {
			continue
		}
		if m.pass == nil {
			m.awake()
			m.pass = m.newPass(l.work)
		}
		more := false
		l.few.Do(func() { more = m.pass.step(l.ctx) })
		if more {
			continue
		}
		p := m.pass
		m.pass = nil
		if l.work.Err() != nil {
			return
		}
		l.report(m, p.err)
		answers = answers && !(p.err != nil && store.Temporary(p.err))
		l.worked = l.worked || p.moved
		if p.err == nil {
			m.goOnSweeping(l.work)
		}
		m.passBy(m.nextPass(p.started, p.next, p.err))
	}
	if answers && len(l.server.movers) > 1 {
		l.countAcked(started)
	}
	if answers {
		l.keepPaused(started)
	}
	if answers && l.isFirst() {
		l.server.writeHeartbeat(l.work, started)
	}
}

// countAcked reads how many jobs were acknowledged, for the history that the first mover's store keeps of all. It reads no
// more often than that history is written, and not while nothing happens.
func (l *loop) countAcked(now time.Time) {
	if !l.worked || now.Sub(l.counted) < renewEvery {
		return
	}
	l.counted, l.worked = now, false
	ctx, cancel := context.WithTimeout(l.work, batchWait)
	defer cancel()
	for _, m := range l.movers {
		acked, err := m.store.Acked().Do(ctx)
		if err != nil {
			acked = -1
		}
		if m.acked.Swap(acked) != acked {
			l.worked = true
		}
	}
}

// noRedis is the log line for a Redis that does not respond or refuses a pass.
const noRedis = "Redis does not work for us"

// report logs the result of a pass. A Redis that does not respond is logged once for all movers.
func (l *loop) report(m *mover, err error) {
	if err == nil || !store.Temporary(err) {
		m.outages.report(noRedis, err)
	}
	if err == nil || store.Temporary(err) {
		l.server.outages.reportOf(m.number, noRedis, err)
	}
}

// next is when there is something to do; now reports that a pass is in progress. In a cluster the heartbeat, which tells of all movers, can't wait for
// the next pass of the first one.
func (l *loop) next() (next time.Time, now bool) {
	next = l.pauses.next
	for _, m := range l.movers {
		next = earlier(next, m.passAt())
		now = now || m.pass != nil
	}
	if l.few != nil && l.isFirst() {
		next = earlier(next, time.Now().Add(heartbeatEvery))
	}
	return next, now
}

// isFirst reports whether the loop has the first mover.
func (l *loop) isFirst() bool { return l.movers[0] == l.server.movers[0] }

func isBy(t, now time.Time) bool { return !t.IsZero() && !t.After(now) }
