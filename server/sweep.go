package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

const (
	// sweepAfter is the time from the end of a sweep to its next start.
	sweepAfter = time.Minute
	// goOnSoon is the longest break of a sweep in progress.
	goOnSoon = 20 * time.Millisecond
	// deadTurn and topicsTurn are how long a sweep works before due jobs are moved. A million topics take a tenth of
	// Redis's time for a minute.
	deadTurn, topicsTurn = 10 * time.Millisecond, 2 * time.Millisecond
	// never is an age that no dead letter reaches.
	never = 100 * 365 * 24 * time.Hour
)

type sweep struct {
	// page handles the first page, or the next one.
	page    func(ctx context.Context, first bool) (more bool, err error)
	turn    time.Duration
	after   time.Duration // from its end to its next start; 0: sweepAfter
	failing string        // the log line for a failure
	remind  bool          // repeat that line while it fails
	repairs bool          // done on standby too
	outages *outages

	ended    time.Time // the last run
	underWay bool
	err      error // the first error of this run
}

// goOn works for one turn.
func (w *sweep) goOn(ctx context.Context) {
	started := time.Now()
	for again := true; again; again = w.underWay && ctx.Err() == nil && time.Since(started) < w.turn {
		w.next(ctx)
	}
}

func (w *sweep) all(ctx context.Context) {
	w.underWay = false
	for again := true; again; again = w.underWay {
		w.next(ctx)
	}
}

func (w *sweep) next(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, batchWait)
	defer cancel()
	if !w.underWay {
		w.err = nil
	}
	more, err := w.page(ctx, !w.underWay)
	w.underWay, w.err = more, cmp.Or(w.err, err)
	if !more {
		w.ended = time.Now()
		w.outages.reportMinor(w.failing, w.err, w.remind)
	}
}

// sweepDead drops dead letters that are too old or too many.
func (m *mover) sweepDead() *sweep {
	var at store.DeadPosition
	return &sweep{
		turn: deadTurn, outages: m.outages, failing: "Old dead letters cannot be dropped", remind: true,
		page: func(ctx context.Context, first bool) (bool, error) {
			if first {
				at = store.DeadPosition{}
			}
			limits := m.server.dead.Load()
			if limits.age == never && limits.most == 0 {
				return false, nil
			}
			dropped, next, err := m.store.ExpireDead(ctx, limits.age, limits.most, at)
			for _, d := range dropped {
				logJobs(m.log, slog.LevelInfo, fmt.Sprintf("Dead letters dropped, %d too old or too many", len(d.IDs)), d.Topic, d.IDs)
			}
			at = next
			return next != store.DeadPosition{}, err
		},
	}
}

// sweepTopics checks the known topics, drops entries of ready queues that have no job, and buries jobs that are about to expire.
func (m *mover) sweepTopics() *sweep {
	var at store.Position
	return &sweep{
		turn: topicsTurn, outages: m.outages, failing: "Ready queues and known topics cannot be swept; jobs are moved all the same",
		page: func(ctx context.Context, first bool) (bool, error) {
			if first {
				at = store.Position{}
			}
			swept, err := m.store.Sweep(ctx, at)
			for _, stale := range swept.Gone {
				m.server.dropped(len(stale.IDs))
				logJobs(m.log, slog.LevelError, "Ready job has expired or was removed, entry dropped", stale.Topic, stale.IDs)
			}
			for _, expired := range swept.Buried {
				m.server.dropped(len(expired.IDs))
				logJobs(m.log, slog.LevelError, "Ready job has expired and is a dead letter now", expired.Topic, expired.IDs)
			}
			at = swept.Last
			m.server.reportUntagged(ctx, swept.Excluded)
			return swept.More && err == nil, err
		},
	}
}

const untaggedAgain = time.Hour

// reportUntagged logs, once an hour for each topic, how many of its jobs cannot be reserved. The first mover that finds
// some counts them all.
func (s *Server) reportUntagged(ctx context.Context, topics []string) {
	for _, topic := range topics {
		if !s.untagged.IsDue(topic, untaggedAgain) {
			continue
		}
		l, jobs, err := s.fleet.Untagged(ctx, topic)
		if err != nil || jobs == 0 { // the next sweep tries again
			s.untagged.Forget(topic)
			continue
		}
		s.log.Warn(fmt.Sprintf("Ready jobs without the tag %s of their topic's limit, which nobody will get: %d; set a limit without a tag, or push them again with that tag in their IDs",
			store.Quote(l.Tag), jobs), slog.String("topic", topic))
	}
}
