package worker

import (
	"log/slog"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// fetchFailure logs that jobs can't be fetched: a line when that begins, one a minute at most, and one
// when it is over. It also says when to try again.
type fetchFailure struct {
	logger *slog.Logger
	away   bool      // Redis does not answer
	since  time.Time // zero if all is well
	said   time.Time // the last line, be it of a failure before
	told   bool      // of this failure
	pause  time.Duration
}

// remindEvery is how often it is said at most that jobs can't be fetched.
const remindEvery = time.Minute

// failed enters that a fetch has failed, and returns after how long to try again.
func (f *fetchFailure) failed(err error) time.Duration {
	now := time.Now()
	if f.since.IsZero() {
		f.since = now
	}
	f.away = store.KindOf(err) == store.NoAnswer
	if now.Sub(f.said) >= remindEvery {
		f.said, f.told = now, true
		f.logger.Error("worker can't fetch jobs, it keeps trying", "error", err)
	}
	f.pause = min(max(2*f.pause, firstPause), lastPause)
	return f.pause
}

// recovered enters that Redis answers again.
func (f *fetchFailure) recovered() {
	if f.told {
		f.logger.Info("worker fetches jobs again", "after", time.Since(f.since).Round(time.Millisecond))
	}
	*f = fetchFailure{logger: f.logger, said: f.said}
}
