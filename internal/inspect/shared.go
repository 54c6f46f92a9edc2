package inspect

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// errNoAnswer ends a reading without an answer.
type errNoAnswer struct{ within time.Duration }

func (e errNoAnswer) Error() string { return fmt.Sprintf("no response within %v", e.within) }

// Shared shares the result of one read of Redis among all callers at the same time, or soon after.
type Shared[T any] struct {
	read    func(ctx context.Context) (T, error)
	timeout time.Duration

	mu   sync.Mutex
	last *Reading[T] // under way or done; nil before the first
}

// Reading is one read.
type Reading[T any] struct {
	Began time.Time
	done  chan struct{} // closed when there is what follows
	found T
	err   error
}

// NewShared returns a Shared for what read finds within the timeout.
func NewShared[T any](timeout time.Duration, read func(context.Context) (T, error)) *Shared[T] {
	return &Shared[T]{read: read, timeout: timeout}
}

// Current returns a reading that began at most maxAge ago, or else a new one.
func (s *Shared[T]) Current(maxAge time.Duration) *Reading[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.last; r != nil {
		select {
		case <-r.done:
			if time.Since(r.Began) < maxAge {
				return r
			}
		default:
			return r
		}
	}
	r := &Reading[T]{Began: time.Now(), done: make(chan struct{})}
	s.last = r
	go func() {
		defer close(r.done)
		ctx, cancel := context.WithTimeoutCause(context.Background(), s.timeout, errNoAnswer{s.timeout})
		defer cancel()
		r.found, r.err = s.read(ctx)
	}()
	return r
}

// Wait returns what is found. ctx bounds the wait.
func (r *Reading[T]) Wait(ctx context.Context) (T, error) {
	select {
	case <-r.done:
		return r.found, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}
