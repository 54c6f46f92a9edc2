package server

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

const (
	// pausesEvery is how often a server looks after paused topics.
	pausesEvery = time.Second
	pausesFail  = "Paused topics can't be looked after, their pauses don't end by themselves"
)

// pauses is what a node knows of the paused topics of its movers' partitions.
type pauses struct {
	looked time.Time
	next   time.Time // when it has to look again; zero: when it is awake
}

// keepPaused ends pauses that are over, and sets aside what somebody who doesn't know of pauses has made ready. All servers do it,
// whoever moves the jobs: the second one finds nothing to do.
func (n *node) keepPaused(movers []*mover, now time.Time) {
	p := &n.pauses
	// A look that is a little early spares one for itself.
	if recent := p.looked.Add(pausesEvery * 9 / 10); len(movers) == 0 || now.Before(recent) && !isBy(p.next, now) {
		p.next = earlier(p.next, p.looked.Add(pausesEvery)) // it may be a pause that woke the server
		return
	}
	ctx, cancel := context.WithTimeout(n.work, batchWait)
	defer cancel()
	next, err := keepPaused(ctx, movers)
	p.looked, p.next = now, time.Time{}
	if next > 0 {
		p.next = now.Add(next)
	}
	n.outages.aside(pausesFail, err, false)
}

// keepPaused does that in partitions on one node. It returns after how long to look again, 0 if no topic is paused.
func keepPaused(ctx context.Context, movers []*mover) (next time.Duration, failed error) {
	var all []*store.Store
	for _, m := range movers {
		all = append(all, m.store)
	}
	some, err := store.SomePaused(ctx, all)
	if err != nil {
		return 0, err
	}
	var having []*mover
	var stores []*store.Store
	for i, m := range movers {
		if some[i] {
			having, stores = append(having, m), append(stores, m.store)
		}
	}
	store.KeepPaused(ctx, stores, func(i int, kept store.KeptPaused, err error) {
		for _, topic := range kept.Ended {
			having[i].log.Info("Pause is over", slog.String("topic", topic))
		}
		wait := pausesEvery
		if err != nil {
			failed = having[i].named(err)
		} else if kept.Paused == 0 {
			return
		} else if kept.Wait >= 0 {
			wait = min(wait, max(kept.Wait, time.Millisecond))
		}
		if next == 0 || wait < next {
			next = wait
		}
	})
	return next, failed
}

// copyPauses has topics paused, and limited, in new partitions that are in those of before.
func (s *Server) copyPauses(ctx context.Context, outages *outages) (done bool) {
	err := errors.Join(s.partitions.CopyPauses(ctx), s.partitions.CopyLimits(ctx))
	outages.aside("Pauses and limits can't be copied to new partitions", err, false)
	return err == nil
}
