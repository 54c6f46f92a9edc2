package exit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// SameSignal is how long a second stop signal counts as the first: GNU timeout sends two.
const SameSignal = time.Second

// Signals are the signals that the program handles.
type Signals struct {
	Stop    chan os.Signal
	Stopped time.Time // when the first stop signal came; zero: not yet
	reopen  chan os.Signal
	reload  chan os.Signal // daemon only, see Reload
}

// Notify handles the signals until the end of the program. With hangUp, SIGHUP stops the program even if it was started to
// ignore it, for example by nohup. The other signals always count: a shell without job control makes all background
// programs ignore SIGINT and SIGQUIT.
func Notify(hangUp bool) *Signals {
	s := &Signals{Stop: make(chan os.Signal, 2), reopen: make(chan os.Signal, 1), reload: make(chan os.Signal, 1)}
	signal.Notify(s.Stop, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	if hangUp || !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(s.Stop, syscall.SIGHUP)
	}
	notifyReopen(s.reopen)
	return s
}

// Reload also handles the signal to reload.
func (s *Signals) Reload() { notifyReload(s.reload) }

// ErrCutOff means that the program ended before its work was done.
var ErrCutOff = errors.New("the service was cut off")

// During runs work and handles signals. The first stop signal ends the work's context; stopping returns how long the
// work may take then, 0 for any time. A second signal, unless it is a duplicate of the first, ends During at once.
func (s *Signals) During(work func(context.Context) error, stopping func(os.Signal) time.Duration, reopen, reload func()) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- work(ctx) }()
	var wait time.Duration
	var deadline <-chan time.Time
	for {
		select {
		case err := <-done:
			return err
		case <-s.reopen:
			reopen()
		case <-s.reload:
			reload()
		case signal := <-s.Stop:
			if s.Stopped.IsZero() {
				s.Stopped = time.Now()
				if wait = stopping(signal); wait > 0 {
					deadline = time.After(wait)
				}
				cancel()
			} else if time.Since(s.Stopped) > SameSignal {
				return fmt.Errorf("%w by a second signal while it stopped: %v", ErrCutOff, signal)
			}
		case <-deadline:
			return fmt.Errorf("%w: it has not stopped within %v", ErrCutOff, wait)
		}
	}
}
