package server

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

const (
	// pausesEvery is how often a server looks after paused topics.
	pausesEvery = time.Second
	// pausesRest is how long it leaves them alone for each page of them: a page takes up to a millisecond of Redis's time.
	pausesRest = 20 * time.Millisecond
	pausesFail = "Paused topics can't be looked after, their pauses don't end by themselves"
)

// pauses is what a node knows of the paused topics of its movers' partitions.
type pauses struct {
	*pausesWalk           // that is under way, nil if none is
	looked      time.Time // when the last one began
	rested      time.Time // when the next one may begin
	next        time.Time // when it has to go on or look again; zero: when it is awake
}

// pausesWalk looks after all paused topics of partitions on one node once, page by page.
type pausesWalk struct {
	movers []*mover      // that have not come to their last pages
	at     []string      // where each goes on
	pages  int           // looked after
	next   time.Duration // after how long to look again; 0: no topic is paused
	err    error         // the last one
}

// keepPaused ends pauses that are over, and sets aside what somebody who doesn't know of pauses has made ready. All servers do it,
// whoever moves the jobs: the second one finds nothing to do. It makes one exchange, so that passes come between.
func (n *node) keepPaused(movers []*mover, now time.Time) {
	p := &n.pauses
	ctx, cancel := context.WithTimeout(n.work, batchWait)
	defer cancel()
	if p.pausesWalk == nil {
		// A look that is a little early spares one for itself.
		recent := p.looked.Add(pausesEvery * 9 / 10)
		if len(movers) == 0 || now.Before(p.rested) || now.Before(recent) && !isBy(p.next, now) {
			p.next = later(earlier(p.next, p.looked.Add(pausesEvery)), p.rested) // it may be a pause that woke the server
			return
		}
		p.looked = now
		if p.pausesWalk = startPausesWalk(ctx, movers); p.pausesWalk == nil {
			p.next = time.Time{}
			if len(n.outages.running) > 0 {
				n.outages.aside(pausesFail, nil, false)
			}
			return
		}
	}
	p.drop(func(i int) bool { return !slices.Contains(movers, p.movers[i]) }) // which have gone to other nodes
	if p.step(ctx) {
		p.next = now
		return
	}
	walk := p.pausesWalk
	p.pausesWalk, p.next, p.rested = nil, time.Time{}, now.Add(time.Duration(walk.pages)*pausesRest)
	if walk.next > 0 {
		p.next = later(p.looked.Add(walk.next), p.rested)
	}
	n.outages.aside(pausesFail, walk.err, false)
}

// keepAllPaused does that in one partition, whatever it takes.
func (m *mover) keepAllPaused(ctx context.Context) error {
	walk := startPausesWalk(ctx, []*mover{m})
	if walk == nil {
		return nil
	}
	for walk.step(ctx) {
	}
	return walk.err
}

// startPausesWalk starts a walk through the partitions that have paused topics. It returns nil if there are none.
func startPausesWalk(ctx context.Context, movers []*mover) *pausesWalk {
	var all []*store.Store
	for _, m := range movers {
		all = append(all, m.store)
	}
	some, err := store.SomePaused(ctx, all)
	if err != nil {
		return &pausesWalk{err: err}
	}
	if !slices.Contains(some, true) {
		return nil
	}
	w := &pausesWalk{movers: movers, at: slices.Repeat([]string{"0"}, len(movers))}
	w.drop(func(i int) bool { return !some[i] })
	return w
}

// step takes a step in each partition that has more to do, and reports whether any still has.
func (w *pausesWalk) step(ctx context.Context) (more bool) {
	if len(w.movers) == 0 {
		return false
	}
	var stores []*store.Store
	for _, m := range w.movers {
		stores = append(stores, m.store)
	}
	newPage := false
	store.KeepPaused(ctx, stores, w.at, func(i int, kept store.KeptPaused, err error) {
		m := w.movers[i]
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
		w.at[i] = kept.Next // "" after an error
	})
	if newPage {
		w.pages++
	}
	w.drop(func(i int) bool { return w.at[i] == "" })
	return len(w.movers) > 0
}

// drop leaves out those of the movers.
func (w *pausesWalk) drop(is func(i int) bool) {
	var movers []*mover
	var at []string
	for i, m := range w.movers {
		if !is(i) {
			movers, at = append(movers, m), append(at, w.at[i])
		}
	}
	w.movers, w.at = movers, at
}

// copyPauses has topics paused, and limited, in new partitions that are in those of before.
func (s *Server) copyPauses(ctx context.Context, outages *outages) (done bool) {
	err := errors.Join(s.partitions.CopyPauses(ctx), s.partitions.CopyLimits(ctx))
	outages.aside("Pauses and limits can't be copied to new partitions", err, false)
	return err == nil
}
