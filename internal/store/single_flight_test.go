package store

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Callers that come during a call share its error, unless that is the end of its own caller's context.
func TestSingleFlight(t *testing.T) {
	failed := errors.New("failed")
	for _, c := range []struct {
		name    string
		timeout time.Duration // of the first caller
		calls   int32
		took    time.Duration // of the others
	}{
		{"a failure", time.Hour, 1, 2 * time.Second},
		{"the first caller's end", time.Second, 2, 4 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s singleFlight
				var calls atomic.Int32
				call := func() error { calls.Add(1); time.Sleep(2 * time.Second); return failed }
				began, results := time.Now(), make(chan time.Duration, 5)
				ask := func(timeout time.Duration) {
					ctx, cancel := context.WithTimeout(t.Context(), timeout)
					defer cancel()
					if err := s.Do(ctx, call); err != failed {
						t.Error(err)
					}
					results <- time.Since(began)
				}
				go ask(c.timeout)
				synctest.Wait()
				for range 4 {
					go ask(time.Hour)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := s.Do(ctx, call); err != context.DeadlineExceeded {
					t.Errorf("who leaves gets %v", err)
				}
				<-results
				for range 4 {
					if took := <-results; took != c.took {
						t.Errorf("answered after %v, want %v", took, c.took)
					}
				}
				if n := calls.Load(); n != c.calls {
					t.Errorf("%d calls, want %d", n, c.calls)
				}
			})
		})
	}
}
