package server

import (
	"sync"
	"time"
)

// alarm wakes the server at the earliest of the times that it is set to.
type alarm struct {
	timer timer

	mu sync.Mutex
	at time.Time // zero if it is not set
}

// timer rings once, as precisely as the system can.
type timer interface {
	reset(d time.Duration) // it rings after d, and not as it was set before
	wait()                 // until it has rung
	close()
}

// wakeBy ends the sleep under way, or the next one, at t or before.
func (a *alarm) wakeBy(t time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at.IsZero() || t.Before(a.at) {
		a.at = t
		a.timer.reset(max(time.Until(t), minWait))
	}
}

// sleepUntil sleeps until t, or an earlier time that wakeBy was told, but for minWait at least.
func (a *alarm) sleepUntil(t time.Time) {
	a.mu.Lock()
	if a.at.IsZero() || t.Before(a.at) {
		a.at = t
	}
	a.timer.reset(max(time.Until(a.at), minWait)) // anew: it may have rung meanwhile
	a.mu.Unlock()

	a.timer.wait()

	a.mu.Lock()
	a.at = time.Time{}
	a.mu.Unlock()
}

// goTimer is Go's timer. It is up to a millisecond late while the process is idle.
type goTimer struct{ *time.Timer }

func newGoTimer() timer { return goTimer{time.NewTimer(time.Hour)} }

func (t goTimer) reset(d time.Duration) { t.Reset(d) }
func (t goTimer) wait()                 { <-t.C }
func (t goTimer) close()                { t.Stop() }
