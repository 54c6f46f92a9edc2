package client

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// Pop takes the topic's next ready job, and fails with ErrEmpty when there is
// none. It is one atomic step; the job is gone from Redis then. Entries whose
// jobs are gone are passed over and counted (Stats).
//
// When ctx ends while the answer is due, Pop returns at once, and the job, if
// there is one, is put back as the topic's next. When the connection breaks at that moment, the job
// may be lost: whoever pops takes the job over.
func (c *Client) Pop(ctx context.Context, topic string) (Message, error) {
	m, err := c.pop(ctx, []string{topic})
	return m, failed("pop", topic, err)
}

// BPop is Pop, but waits for a job when there is none, and fails with
// ErrEmpty when the timeout is over; 0 means to wait as long as ctx allows. Of
// several topics, the first that has a job is served.
//
// Waiting takes nothing out of Redis: a cancelled BPop loses no job and returns
// at once. All calls that wait for one topic share one connection; topics beyond
// 64 at a time have none and are looked at every 50 ms. While Redis is away
// BPop keeps trying for 3 s before it returns the error. A timeout that is over
// before Redis could be asked is that error, and not ErrEmpty.
func (c *Client) BPop(ctx context.Context, timeout time.Duration, topic string, more ...string) (Message, error) {
	topics := append([]string{topic}, more...)
	m, err := c.bpop(ctx, timeout, topics)
	return m, failed("bpop", strings.Join(topics, ", "), err)
}

// errNoAnswer is a timeout that ran out before Redis said whether there is a job.
var errNoAnswer = errors.New("redis did not answer within the timeout")

func (c *Client) pop(ctx context.Context, topics []string) (Message, error) {
	return c.popUntil(ctx, nil, topics)
}

// popUntil takes a job, but returns with errNoAnswer when that takes too long.
func (c *Client) popUntil(ctx context.Context, expired <-chan struct{}, topics []string) (Message, error) {
	if err := checkTopics(topics); err != nil {
		return Message{}, err
	}
	if err := c.begin(ctx); err != nil {
		return Message{}, err
	}
	caller := newCaller()
	caller.note(errNoAnswer)
	if len(topics) == 1 {
		defer c.running.Done()
		c.takes.join(caller, topics[0], ctx.Done() == nil && expired == nil)
		return caller.wait(ctx, expired)
	}
	// A take that has been sent goes on when the caller leaves, so that what it
	// takes can be put back.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.start(func() {
		defer c.running.Done()
		taken, ghosts, err := c.store.Take(ctx, topics)
		c.met(ghosts)
		if !caller.offer(taken, err) && err == nil {
			c.restore(taken)
		}
	})
	return caller.wait(ctx, expired)
}

func (c *Client) bpop(ctx context.Context, timeout time.Duration, topics []string) (Message, error) {
	if timeout < 0 {
		return Message{}, invalid("timeout", "it is negative; 0 waits without limit")
	}
	var expired chan struct{}
	if timeout > 0 {
		expired = make(chan struct{})
		limit := time.AfterFunc(timeout, func() { close(expired) }) // costs less than a context
		defer limit.Stop()
	}
	m, err := c.popUntil(ctx, expired, topics)
	if err == nil || ctx.Err() != nil || err == errNoAnswer || !errors.Is(err, ErrEmpty) && !worthWaiting(err) {
		return m, err
	}
	if err == ErrEmpty {
		err = nil
	}
	caller := newCaller()
	topics = slices.Compact(slices.Sorted(slices.Values(topics)))
	if err := c.waits.join(caller, topics, err); err != nil {
		return Message{}, err
	}
	defer c.waits.leave(caller, topics)
	return caller.wait(ctx, expired)
}

func worthWaiting(err error) bool {
	return !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrClosed) && store.Temporary(err)
}

const (
	firstRetry = 20 * time.Millisecond
	lastRetry  = 500 * time.Millisecond
)

// restore puts a job back whose caller has gone, and keeps trying until the
// Client is closed for good.
func (c *Client) restore(taken store.Taken) {
	for retry := firstRetry; ; retry = min(2*retry, lastRetry) {
		if c.store.Restore(c.abandoned, taken) == nil {
			return
		}
		select {
		case <-time.After(retry):
		case <-c.abandoned.Done():
			return
		}
	}
}

// restoreAll puts jobs back, the last first, as each becomes its topic's next.
func (c *Client) restoreAll(batch []store.Taken) {
	for _, taken := range slices.Backward(batch) {
		c.restore(taken)
	}
}
