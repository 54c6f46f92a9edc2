package redistest

import (
	"context"
	"sync"
	"testing"
	"time"
)

// HangBound is the maximum wait for something that must happen, however slow the machine is.
const HangBound = 2 * time.Minute

// Long skips the test under -short, which is how make test runs. It is for tests that are long by nature: clusters,
// failovers, kills under load. make test-all runs them.
func Long(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		if External != "" {
			outcomes.skip(tb, "long")
		}
		tb.Skip("long; make test-all runs it")
	}
}

// Rounds returns how often to repeat something random: rarely under -short.
func Rounds(short, all int) int {
	if testing.Short() {
		return short
	}
	return all
}

// Until waits until a condition holds.
func Until(tb testing.TB, what string, is func() bool) {
	tb.Helper()
	for bound := time.Now().Add(HangBound); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(bound) {
			tb.Fatalf("not within %v: %s", HangBound, what)
		}
	}
}

// Receive waits for a value from the channel, or for its end.
func Receive[T any](tb testing.TB, c <-chan T) T {
	tb.Helper()
	select {
	case value := <-c:
		return value
	case <-time.After(HangBound):
		tb.Fatalf("nothing came within %v", HangBound)
		panic("unreachable")
	}
}

// Background runs a function until the test ends or stop is called. An error fails the test.
func Background(tb testing.TB, run func(ctx context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		tb.Helper()
		cancel()
		if err := Receive(tb, ended); err != nil {
			tb.Error(err)
		}
	})
	tb.Cleanup(stop)
	return stop
}

// Check fails the test on an error.
func Check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Must returns v, and panics on an error, which here is a mistake in the test.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
