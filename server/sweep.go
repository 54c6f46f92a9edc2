package server

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

const (
	// sweepTopicsAfter is after how long the known topics are looked after again.
	sweepTopicsAfter = time.Minute
	// topicsTurn is for how long that is done at a time, see deadTurn: of a million topics a tenth of
	// Redis's time for a minute.
	topicsTurn = 2 * time.Millisecond
)

// topicSweep is a look at all known topics, some at a time.
type topicSweep struct {
	ended    time.Time // the last one
	underWay bool
	at       store.Place // how far it has got
	err      error       // the first one
}

// sweepTopics looks after some of the known topics, if all were not looked after lately.
func (m *mover) sweepTopics(ctx context.Context) {
	if !m.topics.underWay && time.Since(m.topics.ended) < sweepTopicsAfter {
		return
	}
	started := time.Now()
	if !m.topics.underWay {
		m.topics = topicSweep{}
	}
	for again := true; again; again = m.topics.underWay && ctx.Err() == nil && time.Since(started) < topicsTurn {
		m.sweepSomeTopics(ctx)
	}
	if m.topics.underWay {
		return
	}
	m.topics.ended = time.Now()
	if err := m.topics.err; err == nil || !store.Temporary(err) { // else the next pass says so
		m.outages.mention("topics", "Ready queues and known topics can't be swept; jobs are moved all the same", err)
	}
}

// sweepAllTopics is sweepTopics for all of them, now.
func (m *mover) sweepAllTopics(ctx context.Context) {
	m.topics = topicSweep{}
	for again := true; again; again = m.topics.underWay && ctx.Err() == nil {
		m.sweepTopics(ctx)
	}
}

func (m *mover) sweepSomeTopics(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, batchWait)
	defer cancel()
	swept, err := m.store.Sweep(ctx, m.topics.at)
	for _, stale := range swept.Gone {
		m.observer.Dropped(len(stale.IDs))
		logJobs(m.log, slog.LevelError, "Ready job has expired or was removed, entry dropped", stale.Topic, stale.IDs)
	}
	m.topics.at, m.topics.underWay, m.topics.err = swept.Last, swept.More, cmp.Or(m.topics.err, err)
}
