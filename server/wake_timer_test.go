package server

import (
	"testing"
	"time"
)

// fakeTimer fires when the test makes it fire.
type fakeTimer struct {
	set  time.Duration
	ring chan struct{}
}

func (f *fakeTimer) reset(d time.Duration) { f.set = d }
func (f *fakeTimer) wait()                 { <-f.ring }
func (f *fakeTimer) close()                {}

func TestWakeTimerTakesTheEarliest(t *testing.T) {
	timer := &fakeTimer{ring: make(chan struct{}, 1)}
	a := &wakeTimer{precise: timer}
	expect := func(want time.Duration) {
		t.Helper()
		if timer.set > want || timer.set < want-time.Minute { // the duration counts from the call
			t.Errorf("it rings after %v, want %v", timer.set, want)
		}
	}
	start := time.Now()
	for _, h := range []time.Duration{5, 3, 9, 4} {
		a.wakeBy(start.Add(h * time.Hour))
	}
	expect(3 * time.Hour)
	timer.ring <- struct{}{}
	a.sleepUntil(start.Add(8 * time.Hour)) // a time that is set before the sleep counts
	expect(3 * time.Hour)
	timer.ring <- struct{}{}
	a.sleepUntil(start.Add(8 * time.Hour)) // only once
	expect(8 * time.Hour)
	timer.ring <- struct{}{}
	a.sleepUntil(start)
	expect(minWait)
	a.wakeBy(start)
	expect(minWait)
}

func TestTimers(t *testing.T) {
	for name, timer := range map[string]timer{"of the system": newTimer(), "Go's": newGoTimer()} {
		t.Run(name, func(t *testing.T) {
			defer timer.close()
			for _, d := range []time.Duration{-time.Second, 0, 1, time.Millisecond, 3 * time.Millisecond} {
				started := time.Now()
				timer.reset(d)
				timer.wait()
				if took := time.Since(started); took < d {
					t.Errorf("it rang after %v, want %v", took, d)
				}
			}

			timer.reset(time.Hour)
			rung := make(chan struct{})
			go func() {
				timer.wait()
				close(rung)
			}()
			timer.reset(time.Millisecond) // during the wait or before it
			<-rung

			timer.reset(1)
			time.Sleep(time.Millisecond) // usually the timer has fired by now
			started := time.Now()
			timer.reset(20 * time.Millisecond)
			timer.wait()
			if took := time.Since(started); took < 20*time.Millisecond {
				t.Errorf("it rang after %v, as it was set before", took)
			}
		})
	}
}
