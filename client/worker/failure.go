package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
)

// isolate handles a fetch that Redis refused because the ready queue of some topic is broken: it marks those
// topics, so that the others are served without them. It reports whether it found any.
func (r *run) isolate(ctx context.Context, topics []client.FetchTopic, err error) bool {
	if len(topics) < 2 || !isOfOne(err) {
		return false
	}
	found := false
	for _, t := range topics {
		s := r.byName[t.Topic]
		r.try(ctx, s)
		found = found || s.isBroken()
	}
	return found
}

// tryBroken retries topics that were broken some time ago.
func (r *run) tryBroken(ctx context.Context, now time.Time) {
	for _, s := range r.served {
		if s.isBroken() && !now.Before(s.brokenUntil) {
			r.try(ctx, s)
		}
	}
}

// try fetches one job of the topic, if a slot is free, and records whether the topic is broken.
func (r *run) try(ctx context.Context, s *served) {
	r.mu.Lock()
	places := min(r.wanted(), s.options.Concurrency-s.active)
	r.mu.Unlock()
	if s.isBroken() {
		s.brokenUntil = time.Now().Add(lastPause) // if it can't be tried now or Redis is down
	}
	if places <= 0 {
		return
	}
	list, err := r.fetchOne(ctx, s)
	r.start(list)
	switch {
	case isOfOne(err):
		s.brokenUntil = time.Now().Add(s.failure.failed(err))
	case err == nil || errors.Is(err, client.ErrEmpty):
		s.brokenUntil = time.Time{}
		s.failure.recovered()
	}
}

func (s *served) isBroken() bool { return !s.brokenUntil.IsZero() }

// isOfOne reports whether err may concern a single topic: Redis returned it, and waiting won't help.
func isOfOne(err error) bool {
	kind := store.KindOf(err)
	return kind == store.WrongType || kind == store.OutOfMemory || kind == store.OtherAnswer
}

// fetchFailure logs failing fetches: one line at the start, at most one per minute, and one at the end. It
// also paces the retries.
type fetchFailure struct {
	logger *slog.Logger
	away   bool      // Redis did not reply, and no fetch has succeeded since
	since  time.Time // zero if there is no failure
	said   time.Time // last log line, perhaps of an earlier failure
	told   bool      // this failure has been logged
	pause  redisconn.Backoff
}

const remindEvery = time.Minute

// failed records a failed fetch and returns how long to wait before the next.
func (f *fetchFailure) failed(err error) time.Duration {
	now := time.Now()
	if f.since.IsZero() {
		f.since = now
	}
	f.away = f.away || store.KindOf(err) == store.NoAnswer // a node that restarts says CLUSTERDOWN or LOADING before it is back
	if now.Sub(f.said) >= remindEvery {
		f.said, f.told = now, true
		f.logger.Error("worker can't fetch jobs, it keeps trying", "error", err)
	}
	return f.pause.Next(firstPause, lastPause)
}

func (f *fetchFailure) recovered() {
	if f.told {
		f.logger.Info("worker fetches jobs again", "after", duration.Format(time.Since(f.since).Round(time.Millisecond)))
	}
	*f = fetchFailure{logger: f.logger, said: f.said}
}
