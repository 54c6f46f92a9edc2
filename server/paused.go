package server

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
)

const (
	// pausesEvery is how often a server checks paused topics.
	pausesEvery = time.Second
	// pausesRest is the wait after a walk for each of its pages, since a page takes up to 1 ms of Redis's time.
	pausesRest = 20 * time.Millisecond
	pausesFail = "Paused topics cannot be checked, so their pauses do not end by themselves"
)

// pauses is what a loop knows of the paused topics of its movers' partitions.
type pauses struct {
	walk   *pausesWalk // in progress, or nil
	began  time.Time   // the last walk
	rested time.Time   // the earliest start of the next walk
	next   time.Time   // when to go on or start the next walk; zero: whenever the loop is awake
}

// pausesWalk checks all paused topics of some partitions once, page by page. Each mover has its place (mover.pausedAt).
type pausesWalk struct {
	movers []*mover      // with more pages
	pages  int           // done
	next   time.Duration // until the next walk; 0: no topic is paused
}

// keepPaused ends pauses that are over, and parks jobs of paused topics that a program without pauses made ready. Every
// server does it, also on standby; the second one finds nothing to do. Each call is one step, so that passes come in between.
func (l *loop) keepPaused(now time.Time) {
	p := &l.pauses
	ctx, cancel := context.WithTimeout(l.work, batchWait)
	defer cancel()
	if p.walk == nil {
		// A walk that is slightly early saves waking up for it.
		recent := p.began.Add(pausesEvery * 9 / 10)
		if now.Before(p.rested) || now.Before(recent) && !isBy(p.next, now) {
			p.next = later(earlier(p.next, p.began.Add(pausesEvery)), p.rested) // the server may have been woken for a pause
			return
		}
		p.began = now
		if p.walk = startPausesWalk(ctx, l.movers); p.walk == nil {
			p.next = time.Time{}
			return
		}
	}
	if p.walk.step(ctx) {
		p.next = now
		return
	}
	walk := p.walk
	p.walk, p.next, p.rested = nil, time.Time{}, now.Add(time.Duration(walk.pages)*pausesRest)
	if walk.next > 0 {
		p.next = later(p.began.Add(walk.next), p.rested)
	}
}

// keepAllPaused makes a whole walk through one partition.
func (m *mover) keepAllPaused(ctx context.Context) {
	if walk := startPausesWalk(ctx, []*mover{m}); walk != nil {
		for walk.step(ctx) {
		}
	}
}

// startPausesWalk starts a walk through the partitions. It returns nil if no topic is paused.
func startPausesWalk(ctx context.Context, movers []*mover) *pausesWalk {
	movers = withPauses(ctx, movers)
	if len(movers) == 0 {
		return nil
	}
	for _, m := range movers {
		m.pausedAt = "0"
	}
	return &pausesWalk{movers: movers}
}

// withPauses returns movers whose partitions may have paused topics. It usually takes one command: none or all have some. A partition that can't be read
// counts as having none.
func withPauses(ctx context.Context, movers []*mover) (some []*mover) {
	var keys []string
	for _, m := range movers {
		keys = append(keys, m.store.Keys().Paused())
	}
	n, err := movers[0].store.Exist(ctx, keys...)
	switch {
	case n > 0:
		return movers
	case store.Refused(err) && len(movers) > 1: // perhaps only for some of the keys
		for _, m := range movers {
			some = append(some, withPauses(ctx, []*mover{m})...)
		}
		return some
	case err == nil:
		for _, m := range movers {
			m.outages.reportMinor(pausesFail, nil, false)
		}
	}
	return nil
}

// step handles a page of each partition, and reports whether any has more.
func (w *pausesWalk) step(ctx context.Context) (more bool) {
	share, newPage := min(len(w.movers), fleet.PausesAtOnce), false
	call := func(i int) *store.Call[store.KeptPaused] {
		return w.movers[i].store.KeepPaused(w.movers[i].pausedAt, share)
	}
	fleet.InTurn(ctx, storesOf(w.movers), fleet.PausesAtOnce, call, func(i int, kept store.KeptPaused, err error) {
		m := w.movers[i]
		for _, topic := range kept.Ended {
			m.log.Info("Pause is over", slog.String("topic", topic))
		}
		wait := pausesEvery
		switch {
		case err != nil:
		case kept.Paused == 0:
			wait = w.next
		case kept.Wait >= 0:
			wait = min(wait, max(kept.Wait, time.Millisecond))
		}
		if w.next == 0 || wait < w.next {
			w.next = wait
		}
		newPage = newPage || !kept.Again
		if m.pausedAt = kept.Next; m.pausedAt == "" { // also after an error
			m.outages.reportMinor(pausesFail, err, false)
		}
	})
	if newPage {
		w.pages++
	}
	w.movers = slices.DeleteFunc(slices.Clone(w.movers), func(m *mover) bool { return m.pausedAt == "" })
	return len(w.movers) > 0
}
