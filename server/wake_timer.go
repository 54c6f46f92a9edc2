package server

import (
	"sync"
	"time"
)

// wakeTimer wakes a loop at the earliest of the times that it was given.
type wakeTimer struct {
	precise timer

	mu sync.Mutex
	at time.Time // zero if it is not set
}

// timer fires once, as precisely as the operating system allows.
type timer interface {
	reset(d time.Duration) // fires after d; forgets what was set earlier
	wait()                 // until it has fired
	close()
}

// wakeBy ends the current sleep, or the next one, no later than t.
func (a *wakeTimer) wakeBy(t time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at.IsZero() || t.Before(a.at) {
		a.at = t
		a.precise.reset(max(time.Until(t), minWait))
	}
}

// sleepUntil sleeps until t or the earliest time given to wakeBy, but at least minWait.
func (a *wakeTimer) sleepUntil(t time.Time) {
	a.mu.Lock()
	if a.at.IsZero() || t.Before(a.at) {
		a.at = t
	}
	a.precise.reset(max(time.Until(a.at), minWait)) // set again: it may have fired meanwhile
	a.mu.Unlock()

	a.precise.wait()

	a.mu.Lock()
	a.at = time.Time{}
	a.mu.Unlock()
}

// goTimer is Go's timer, which is up to 1 ms late while the process is idle.
type goTimer struct{ *time.Timer }

func newGoTimer() timer { return goTimer{time.NewTimer(time.Hour)} }

func (t goTimer) reset(d time.Duration) { t.Reset(d) }
func (t goTimer) wait()                 { <-t.C }
func (t goTimer) close()                { t.Stop() }
