package metrics

import (
	"context"
	"errors"
	"testing"
	"time"
)

// All who want a look while one is under way share it. The next is a new one, unless one that is
// not so old will do.
func TestLookIsShared(t *testing.T) {
	looking, answer, looks := make(chan bool), make(chan error), 0
	l := newLook(func(context.Context) (int, error) {
		looks++
		looking <- true
		return looks, <-answer
	})
	first := l.current(0)
	<-looking
	for range 20 {
		if l.current(0) != first || l.current(time.Hour) != first {
			t.Fatal("a second look")
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.current(0).wait(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("who has gone got %v", err)
	}
	answer <- nil
	if n, err := l.current(time.Hour).wait(t.Context()); n != 1 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}

	failed := errors.New("failed")
	go func() { <-looking; answer <- failed }()
	if n, err := l.current(0).wait(t.Context()); n != 2 || err != failed {
		t.Errorf("got %d, %v", n, err)
	}
}

// A look is given up in time.
func TestLookEnds(t *testing.T) {
	l := newLook(func(ctx context.Context) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	})
	l.timeout = time.Millisecond
	if _, err := l.current(0).wait(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// forget has the next who asks take a new look.
func (l *look[T]) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last != nil {
		<-l.last.done
	}
	l.last = nil
}
