package worker

import (
	"log/slog"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// outage is what is said of a Redis from which no jobs can be fetched: a line when that begins,
// one a minute at most, and one when it is over.
type outage struct {
	logger *slog.Logger
	away   bool // Redis does not answer
	since  time.Time
	said   time.Time
	told   bool // of this outage
	pause  time.Duration
}

// remindEvery is how often it is said at most that jobs can't be fetched.
const remindEvery = time.Minute

// goesOn enters that a fetch has failed, and returns after how long to try again.
func (o *outage) goesOn(err error) time.Duration {
	now := time.Now()
	if o.since.IsZero() {
		o.since = now
	}
	o.away = store.KindOf(err) == store.NoAnswer
	if now.Sub(o.said) >= remindEvery {
		o.said, o.told = now, true
		o.logger.Error("worker can't fetch jobs, it keeps trying", "error", err)
	}
	o.pause = min(max(2*o.pause, firstPause), lastPause)
	return o.pause
}

// over enters that Redis answers again.
func (o *outage) over() {
	if o.told {
		o.logger.Info("worker fetches jobs again", "after", time.Since(o.since).Round(time.Millisecond))
	}
	*o = outage{logger: o.logger, said: o.said}
}
