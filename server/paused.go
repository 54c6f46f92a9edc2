package server

import (
	"context"
	"log/slog"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

const (
	// pausesEvery is how often a server checks paused topics.
	pausesEvery = time.Second
	// pausesRest is the wait after a walk for each of its pages, since a page takes up to 1 ms of Redis's time.
	pausesRest = 20 * time.Millisecond
	pausesFail = "Paused topics cannot be checked, so their pauses do not end by themselves"
)

// pauses is what a loop knows of paused topics.
type pauses struct {
	walk   *pausesWalk // in progress, or nil
	began  time.Time   // the last walk
	rested time.Time   // the earliest start of the next walk
	next   time.Time   // when to go on or start the next walk; zero: whenever the loop is awake
}

// pausesWalk checks all paused topics of some movers' stores once, page by page.
type pausesWalk struct {
	movers []*mover // with more pages
	at     string   // the next page of the first of these
	rest   time.Duration
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
	p.walk, p.next, p.rested = nil, time.Time{}, now.Add(walk.rest/time.Duration(len(l.movers)))
	if walk.next > 0 {
		p.next = later(p.began.Add(walk.next), p.rested)
	}
}

// keepAllPaused makes a whole walk.
func (m *mover) keepAllPaused(ctx context.Context) {
	if walk := startPausesWalk(ctx, []*mover{m}); walk != nil {
		for walk.step(ctx) {
		}
	}
}

// startPausesWalk starts a walk. It returns nil if no topic is paused.
func startPausesWalk(ctx context.Context, movers []*mover) *pausesWalk {
	if movers = withPauses(ctx, movers); len(movers) == 0 {
		return nil
	}
	return &pausesWalk{movers: movers, at: "0"}
}

// withPauses returns movers whose stores may have paused topics. It usually takes one command: none or all have some. A store that can't be read counts
// as having none.
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

// step handles a page, and reports whether there are more.
func (w *pausesWalk) step(ctx context.Context) (more bool) {
	m := w.movers[0]
	kept, err := m.store.KeepPaused(w.at).Do(ctx)
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
	if !kept.Again {
		w.rest += pausesRest
	}
	if w.at = kept.Next; w.at == "" { // also after an error
		m.outages.reportMinor(pausesFail, err, false)
		w.movers, w.at = w.movers[1:], "0"
	}
	return len(w.movers) > 0 && (err == nil || !store.Temporary(err))
}
