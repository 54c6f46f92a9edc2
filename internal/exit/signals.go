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

// sameSignal is how long a second stop signal counts as the first: GNU timeout sends two.
const sameSignal = time.Second

// signals are the signals that the program handles.
type signals struct {
	stop    chan os.Signal
	reopen  chan os.Signal
	reload  chan os.Signal // daemon only, see notifyReload
	stopped time.Time      // when the first stop signal came; zero: not yet
}

// notify handles the signals until the end of the program. With hangUp, SIGHUP stops the program even if it was started to
// ignore it, for example by nohup. The other signals always count: a shell without job control makes all background
// programs ignore SIGINT and SIGQUIT.
func notify(hangUp bool) *signals {
	s := &signals{stop: make(chan os.Signal, 2), reopen: make(chan os.Signal, 1), reload: make(chan os.Signal, 1)}
	signal.Notify(s.stop, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	if hangUp || !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(s.stop, syscall.SIGHUP)
	}
	notifyReopen(s.reopen)
	return s
}

// errCutOff means that the program ended before its work was done.
var errCutOff = errors.New("the service was cut off")

// during runs work and handles signals. The first stop signal ends the work's context; stopping returns how long the
// work may take then. A second signal, unless it is a duplicate of the first, ends during at once.
func (s *signals) during(work func(context.Context) error, stopping func(os.Signal) (deadline <-chan time.Time), reopen, reload func()) error {
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
		case <-s.reload:
			reload()
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
