package main

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func newTestService() *service {
	return &service{mode: foreground, signals: &signals{stop: make(chan os.Signal, 2), reopen: make(chan os.Signal, 1)}}
}

// Work that does not heed its context is left alone after stopWait, which lies
// within the 5 s of the promise.
func TestStopOfHangingWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestService()
		hanging := make(chan struct{})
		defer close(hanging)
		s.signals.stop <- syscall.SIGTERM
		began := time.Now()
		err := s.during(func(context.Context) error { <-hanging; return nil })
		if took := time.Since(began); !errors.Is(err, errCutOff) || took <= 4*time.Second || took >= 5*time.Second {
			t.Fatalf("%v after %v", err, took)
		}
	})
}

func TestSecondSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestService()
		hanging := make(chan struct{})
		defer close(hanging)
		const second = sameSignal + time.Millisecond
		go func() {
			for range 2 { // the first two are one signal
				s.signals.stop <- syscall.SIGTERM
			}
			time.Sleep(second)
			s.signals.stop <- syscall.SIGINT
		}()
		began := time.Now()
		err := s.during(func(context.Context) error { <-hanging; return nil })
		if took := time.Since(began); !errors.Is(err, errCutOff) || took != second {
			t.Fatalf("%v after %v", err, took)
		}
	})
}

// GNU timeout, and some supervisors, send the signal to the process and to its group: two within
// milliseconds are one.
func TestSignalTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestService()
		go func() {
			s.signals.stop <- syscall.SIGTERM
			time.Sleep(10 * time.Millisecond)
			s.signals.stop <- syscall.SIGTERM
		}()
		finished := false
		err := s.during(func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(100 * time.Millisecond) // the batch in hand
			finished = true
			return nil
		})
		if err != nil || !finished {
			t.Errorf("%v, the work is finished: %v", err, finished)
		}
	})
}

// A stop that comes during the first work counts in the second: one signal ends
// the context, the next ends all.
func TestSecondSignalInLaterWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestService()
		s.signals.stop <- syscall.SIGTERM
		if err := s.during(func(ctx context.Context) error { <-ctx.Done(); return nil }); err != nil || s.signals.stopped.IsZero() {
			t.Fatal(err, s.signals.stopped)
		}
		time.Sleep(2 * sameSignal)
		s.signals.stop <- syscall.SIGTERM
		if err := s.during(func(ctx context.Context) error { <-ctx.Done(); return nil }); !errors.Is(err, errCutOff) {
			t.Fatal(err)
		}
	})
}

func TestWorkThatFails(t *testing.T) {
	broken := errors.New("broken")
	if err := newTestService().during(func(context.Context) error { return broken }); err != broken {
		t.Fatal(err)
	}
}
