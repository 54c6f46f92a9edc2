package store

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Callers that come while Redis is asked share the answer. A caller that comes after a failure asks again, until the answer is final.
func TestAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs, asked := errors.New("redis hangs"), 0
		a := NewAdmission(func(context.Context) (bool, error) {
			asked++
			time.Sleep(3 * time.Second)
			if asked == 1 {
				return false, hangs
			}
			return asked == 3, nil
		})
		for _, want := range []struct {
			err  error
			took time.Duration
		}{{hangs, 3 * time.Second}, {nil, 3 * time.Second}, {nil, 3 * time.Second}, {nil, 0}} {
			began, results := time.Now(), make(chan error, 5)
			for range 5 {
				go func() { results <- a.Pass(t.Context()) }()
			}
			for range 5 {
				if err := <-results; err != want.err || time.Since(began) != want.took {
					t.Errorf("after %v: %v, want %v after %v", time.Since(began), err, want.err, want.took)
				}
			}
		}
		if asked != 3 {
			t.Errorf("asked %d times, want 3", asked)
		}
	})
}
