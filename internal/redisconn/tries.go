package redisconn

import (
	"context"
	"math/rand/v2"
	"time"
)

// Tries are made again and again, ever less often, until a time is over.
type Tries struct {
	end   time.Time
	pause time.Duration
}

const firstPause, lastPause = 5 * time.Millisecond, 200 * time.Millisecond

// NewTries begins some that may go on for so long.
func NewTries(most time.Duration) *Tries {
	return &Tries{time.Now().Add(most), firstPause}
}

// Wait waits for the next one, and reports whether there is time for it.
func (t *Tries) Wait(ctx context.Context) bool {
	pause := t.pause/2 + rand.N(t.pause) // they who were refused together do not come again together
	t.pause = min(2*t.pause, lastPause)
	if time.Now().Add(pause).After(t.end) {
		return false
	}
	select {
	case <-time.After(pause):
		return true
	case <-ctx.Done():
		return false
	}
}

// Within is ctx, ended when the time is over.
func (t *Tries) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithDeadline(ctx, t.end)
}
