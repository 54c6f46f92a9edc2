package store

import (
	"context"
	"sync"

	"github.com/mix-basic/delayer/internal/redisconn"
)

// singleFlight lets callers that come during a call take its result, instead of making the same call one after the other: while
// Redis hangs, the last of many would wait for the sum of their timeouts.
type singleFlight struct {
	mu      sync.Mutex
	current *flight
}

type flight struct {
	ended chan struct{}
	err   error
	cut   bool // it failed because its caller's context ended
}

// Do makes the call and returns its error, or that of a call that was under way. A call that failed because its own caller's
// context ended says nothing to the others: one of them makes it again.
func (s *singleFlight) Do(ctx context.Context, call func() error) error {
	for {
		s.mu.Lock()
		c := s.current
		if c == nil {
			c = &flight{ended: make(chan struct{})}
			s.current = c
			s.mu.Unlock()
			c.err = call()
			c.cut = c.err != nil && redisconn.IsOver(ctx)
			s.mu.Lock()
			s.current = nil
			s.mu.Unlock()
			close(c.ended)
			return c.err
		}
		s.mu.Unlock()
		select {
		case <-c.ended:
			if !c.cut {
				return c.err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
