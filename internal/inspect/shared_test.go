package inspect

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Callers that arrive during a read share it. Later callers start a new one, unless a recent result
// is fresh enough.
func TestReadingIsShared(t *testing.T) {
	reading, answer, reads := make(chan bool), make(chan error), 0
	l := NewShared(time.Minute, func(context.Context) (int, error) {
		reads++
		reading <- true
		return reads, <-answer
	})
	first := l.Current(0)
	<-reading
	for range 20 {
		if l.Current(0) != first || l.Current(time.Hour) != first {
			t.Fatal("a second reading")
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Current(0).Wait(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("who has gone got %v", err)
	}
	answer <- nil
	if n, err := l.Current(time.Hour).Wait(t.Context()); n != 1 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}

	failed := errors.New("failed")
	go func() { <-reading; answer <- failed }()
	if n, err := l.Current(0).Wait(t.Context()); n != 2 || err != failed {
		t.Errorf("got %d, %v", n, err)
	}
}

// A read has a time limit.
func TestReadingEnds(t *testing.T) {
	l := NewShared(time.Millisecond, func(ctx context.Context) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	})
	if _, err := l.Current(0).Wait(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
