package metrics

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// lookTimeout bounds one look at Redis.
const lookTimeout = 3 * time.Second

// errNoAnswer is why a look is over without an answer.
type errNoAnswer struct{ within time.Duration }

func (e errNoAnswer) Error() string { return fmt.Sprintf("no answer within %v", e.within) }

// look shares one look at Redis among all who want it at the same time.
type look[T any] struct {
	look    func(ctx context.Context) (T, error)
	timeout time.Duration

	mu   sync.Mutex
	last *looked[T] // under way or done; nil before the first
}

type looked[T any] struct {
	began time.Time
	done  chan struct{} // closed when there is what follows
	found T
	err   error
}

func newLook[T any](at func(context.Context) (T, error)) *look[T] {
	return &look[T]{look: at, timeout: lookTimeout}
}

// wait is what the look finds. It waits for no longer than ctx.
func (r *looked[T]) wait(ctx context.Context) (T, error) {
	select {
	case <-r.done:
		return r.found, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// current is a look that is under way, or not older than maxAge; else a new one.
func (l *look[T]) current(maxAge time.Duration) *looked[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.last; r != nil {
		select {
		case <-r.done:
			if time.Since(r.began) < maxAge {
				return r
			}
		default:
			return r
		}
	}
	r := &looked[T]{began: time.Now(), done: make(chan struct{})}
	l.last = r
	go func() {
		defer close(r.done)
		ctx, cancel := context.WithTimeoutCause(context.Background(), l.timeout, errNoAnswer{l.timeout})
		defer cancel()
		r.found, r.err = l.look(ctx)
	}()
	return r
}
