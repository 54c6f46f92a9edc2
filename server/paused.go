package server

import (
	"context"
	"log/slog"
	"slices"
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

// pauses is what a node knows of the paused topics of its movers' partitions.
type pauses struct {
	*pausesWalk           // in progress, or nil
	began       time.Time // the last walk
	rested      time.Time // the earliest start of the next walk
	next        time.Time // when to go on or start the next walk; zero: whenever the node is awake
}

// pausesWalk checks all paused topics of the partitions on one node once, page by page. Each mover has its place
// (mover.pausedAt), which it keeps when its partition moves to another node.
type pausesWalk struct {
	pages int           // done
	next  time.Duration // until the next walk; 0: no topic is paused
	err   error         // the last error
}

// keepPaused ends pauses that are over, and parks jobs of paused topics that a program without pauses made ready. Every
// server does it, also on standby; the second one finds nothing to do. Each call is one step, so that passes come in between.
func (n *node) keepPaused(movers []*mover, now time.Time) {
	p := &n.pauses
	ctx, cancel := context.WithTimeout(n.work, batchWait)
	defer cancel()
	if p.pausesWalk == nil {
		// A walk that is slightly early saves waking up for it.
		recent := p.began.Add(pausesEvery * 9 / 10)
		if len(movers) == 0 || now.Before(p.rested) || now.Before(recent) && !isBy(p.next, now) {
			p.next = later(earlier(p.next, p.began.Add(pausesEvery)), p.rested) // the server may have been woken for a pause
			return
		}
		p.began = now
		if p.pausesWalk = startPausesWalk(ctx, movers); p.pausesWalk == nil {
			p.next = time.Time{}
			if len(n.outages.running) > 0 {
				n.outages.reportMinor(pausesFail, nil, false)
			}
			return
		}
	}
	if p.step(ctx, movers) {
		p.next = now
		return
	}
	walk := p.pausesWalk
	p.pausesWalk, p.next, p.rested = nil, time.Time{}, now.Add(time.Duration(walk.pages)*pausesRest)
	if walk.next > 0 {
		p.next = later(p.began.Add(walk.next), p.rested)
	}
	n.outages.reportMinor(pausesFail, walk.err, false)
}

// keepAllPaused makes a whole walk through one partition.
func (m *mover) keepAllPaused(ctx context.Context) error {
	movers := []*mover{m}
	walk := startPausesWalk(ctx, movers)
	if walk == nil {
		return nil
	}
	for walk.step(ctx, movers) {
	}
	return walk.err
}

// startPausesWalk starts a walk through the partitions with paused topics. It returns nil if no topic is paused.
func startPausesWalk(ctx context.Context, movers []*mover) *pausesWalk {
	some, err := store.SomePaused(ctx, storesOf(movers))
	for i, m := range movers {
		if m.pausedAt = ""; err == nil && some[i] {
			m.pausedAt = "0"
		}
	}
	if err == nil && !slices.Contains(some, true) {
		return nil
	}
	return &pausesWalk{err: err}
}

// step handles a page of each partition, and reports whether any has more.
func (w *pausesWalk) step(ctx context.Context, movers []*mover) (more bool) {
	movers = slices.DeleteFunc(slices.Clone(movers), func(m *mover) bool { return m.pausedAt == "" })
	if len(movers) == 0 {
		return false
	}
	at, newPage := make([]string, len(movers)), false
	for i, m := range movers {
		at[i] = m.pausedAt
	}
	store.KeepPaused(ctx, storesOf(movers), at, func(i int, kept store.KeptPaused, err error) {
		m := movers[i]
		for _, topic := range kept.Ended {
			m.log.Info("Pause is over", slog.String("topic", topic))
		}
		wait := pausesEvery
		switch {
		case err != nil:
			w.err = m.named(err)
		case kept.Paused == 0:
			wait = w.next
		case kept.Wait >= 0:
			wait = min(wait, max(kept.Wait, time.Millisecond))
		}
		if w.next == 0 || wait < w.next {
			w.next = wait
		}
		newPage = newPage || !kept.Again
		m.pausedAt = kept.Next // "" after an error
		more = more || m.pausedAt != ""
	})
	if newPage {
		w.pages++
	}
	return more
}
