package daemon

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mix-basic/delayer/internal/exit"
)

func newTestService() *service {
	return &service{mode: foreground, signals: &exit.Signals{Stop: make(chan os.Signal, 2)}}
}

// One signal ends the work's context. Work that does not stop is abandoned after stopWait, within the
// promised 5 s, or at once after another signal. GNU timeout and some supervisors send the same signal
// twice within milliseconds, to the process and to its group.
func TestStop(t *testing.T) {
	const second, slow = exit.SameSignal + time.Millisecond, 100 * time.Millisecond
	hangs := func(context.Context) error { time.Sleep(time.Hour); return nil }
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		signals []time.Duration // times of the signals
		work    func(context.Context) error
		err     error
		after   time.Duration
	}{
		"of work that hangs":     {[]time.Duration{0}, hangs, exit.ErrCutOff, stopWait},
		"by a second signal":     {[]time.Duration{0, 0, second}, hangs, exit.ErrCutOff, second},
		"by one that came twice": {[]time.Duration{0, slow / 10}, func(ctx context.Context) error { <-ctx.Done(); time.Sleep(slow); return nil }, nil, slow},
		"by itself":              {nil, func(context.Context) error { return broken }, broken, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTestService()
				for _, at := range test.signals {
					time.AfterFunc(at, func() { s.signals.Stop <- syscall.SIGTERM })
				}
				began := time.Now()
				if err := s.during(test.work); !errors.Is(err, test.err) || time.Since(began) != test.after {
					t.Errorf("%v after %v, want %v after %v", err, time.Since(began), test.err, test.after)
				}
				time.Sleep(2 * time.Hour) // the hanging work ends
			})
		})
	}
	if stopWait <= 4*time.Second || stopWait >= 5*time.Second {
		t.Errorf("a stop takes %v", stopWait)
	}
}

// A stop signal during the first work counts in the second: one signal ends the context, the next
// one ends everything.
func TestSecondSignalInLaterWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestService()
		s.signals.Stop <- syscall.SIGTERM
		if err := s.during(func(ctx context.Context) error { <-ctx.Done(); return nil }); err != nil || s.signals.Stopped.IsZero() {
			t.Fatal(err, s.signals.Stopped)
		}
		time.Sleep(2 * exit.SameSignal)
		s.signals.Stop <- syscall.SIGTERM
		if err := s.during(func(ctx context.Context) error { <-ctx.Done(); return nil }); !errors.Is(err, exit.ErrCutOff) {
			t.Fatal(err)
		}
	})
}
