package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// sameSignal is how long a second signal to stop counts as the first: GNU timeout
// sends it twice.
const sameSignal = time.Second

// signals are those that the program is told something by.
type signals struct {
	stop    chan os.Signal
	reopen  chan os.Signal
	stopped time.Time // when a signal said so; zero: not yet
}

// notify takes the signals over, until the end of the program. hangUp says whether
// SIGHUP stops the program even if it was started to ignore it, as nohup does.
// The other stop signals count in any case: a shell without job control ignores
// SIGINT and SIGQUIT in all that it starts with &.
func notify(hangUp bool) *signals {
	s := &signals{stop: make(chan os.Signal, 2), reopen: make(chan os.Signal, 1)}
	signal.Notify(s.stop, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	if hangUp || !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(s.stop, syscall.SIGHUP)
	}
	notifyReopen(s.reopen)
	return s
}

// errCutOff: the program ends although its work has not.
var errCutOff = errors.New("the service was cut off")

// during does the work and handles signals meanwhile. The first that stops ends the work's context;
// stopping is told of it and says how long the work may go on. It is left alone then, or at once with
// a second signal that is not the same once more.
func (s *signals) during(work func(context.Context) error, stopping func(os.Signal) (deadline <-chan time.Time), reopen func()) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- work(ctx) }()
	var deadline <-chan time.Time
	for {
		select {
		case err := <-done:
			return err
		case <-s.reopen:
			reopen()
		case signal := <-s.stop:
			if s.stopped.IsZero() {
				s.stopped, deadline = time.Now(), stopping(signal)
				cancel()
			} else if time.Since(s.stopped) > sameSignal {
				return fmt.Errorf("%w by a second signal while it stopped: %v", errCutOff, signal)
			}
		case <-deadline:
			return fmt.Errorf("%w: it has not stopped within %v", errCutOff, stopWait)
		}
	}
}
