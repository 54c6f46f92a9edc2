package client

import (
	"context"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// caller is somebody who wants one job. A job is either accepted by offer, and
// then the caller gets it, or refused, because the caller has one or has gone: there is nothing
// in between in which it could be lost.
type caller struct {
	joined time.Time
	got    chan outcome // holds one

	mu      sync.Mutex
	settled bool  // an offer was accepted, or the caller has gone
	trouble error // the last error that was waited out
}

type outcome struct {
	taken store.Taken
	err   error
}

func newCaller() *caller {
	return &caller{joined: time.Now(), got: make(chan outcome, 1)}
}

// offer gives the caller a job or an error, and reports whether it was accepted.
func (c *caller) offer(taken store.Taken, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.settled {
		return false
	}
	c.settled = true
	c.got <- outcome{taken, err}
	return true
}

// note remembers why there is no job yet, or that the reason is gone (nil).
func (c *caller) note(trouble error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trouble = trouble
}

// wait returns what is offered, unless ctx ends or the time expires first.
func (c *caller) wait(ctx context.Context, expired <-chan struct{}) (Message, error) {
	var end error
	select {
	case o := <-c.got:
		return Message(o.taken.Job), o.err
	case <-ctx.Done():
		end = ctx.Err()
	case <-expired:
		end = ErrEmpty
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.settled { // an offer was faster
		o := <-c.got
		return Message(o.taken.Job), o.err
	}
	c.settled = true
	if c.trouble != nil && end == ErrEmpty {
		end = c.trouble
	}
	return Message{}, end
}
