package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// waits waits until this many callers of the Client wait for the topic, and the Client is registered for its jobs.
func (f *fixture) waits(c *client.Client, topic string, callers int) {
	f.TB.Helper()
	until(f.TB, fmt.Sprint(callers, " callers wait for ", topic), func() bool {
		_, waiting := client.Callers(c, topic)
		return waiting == callers && client.Registered(c, topic)
	})
}

// bears waits until a caller waits for the topic although Redis refuses all writes, or ours.
func (f *fixture) bears(c *client.Client, topic string) {
	f.TB.Helper()
	until(f.TB, "a caller bears it", func() bool { _, waiting := client.Callers(c, topic); return waiting == 1 })
}

// taker is a way to take a job.
type taker func(ctx context.Context, c *client.Client, timeout time.Duration, topics ...string) (client.Message, error)

// waiters has all ways to wait for a job for a while.
var waiters = map[string]taker{
	"BPop": func(ctx context.Context, c *client.Client, timeout time.Duration, topics ...string) (client.Message, error) {
		return c.BPop(ctx, timeout, topics[0], topics[1:]...)
	},
	"Fetch": func(ctx context.Context, c *client.Client, timeout time.Duration, topics ...string) (client.Message, error) {
		list, err := c.Fetch(ctx, client.FetchOptions{Topics: fetchTopics(topics...), Max: 1, Timeout: timeout, Lease: time.Hour})
		return messageOf(slices.Concat(list, []*client.Delivery{nil})[0], err)
	},
}

func messageOf(d *client.Delivery, err error) (client.Message, error) {
	if err != nil {
		return client.Message{}, err
	}
	return d.Message, nil
}

// eachWaiter runs the test for each way to wait.
func eachWaiter(t *testing.T, test func(t *testing.T, take taker)) {
	for name, take := range waiters {
		t.Run(name, func(t *testing.T) { test(t, take) })
	}
}

// inBackground takes a job in the background.
func inBackground(ctx context.Context, take taker, c *client.Client, timeout time.Duration, topics ...string) <-chan result {
	return background(func() (client.Message, error) { return take(ctx, c, timeout, topics...) })
}

// bpop runs a BPop in the background.
func bpop(ctx context.Context, c *client.Client, timeout time.Duration, topics ...string) <-chan result {
	return inBackground(ctx, waiters["BPop"], c, timeout, topics...)
}

// reserve runs a Reserve in the background, without a timeout.
func reserve(ctx context.Context, c *client.Client, lease time.Duration, topics ...string) <-chan result {
	return later(func() result {
		d, err := c.Reserve(ctx, lease, topics...)
		m, err := messageOf(d, err)
		return result{m: m, d: d, err: err}
	})
}

// waiting makes the call and returns once the call waits for the topics and the Client is registered for their jobs.
func (f *fixture) waiting(c *client.Client, call func() <-chan result, topics ...string) <-chan result {
	f.TB.Helper()
	_, before := client.Callers(c, topics[0])
	results := call()
	for _, topic := range topics {
		f.waits(c, topic, before+1)
	}
	return results
}

// waiter starts a BPop without a timeout and returns once the BPop waits for the topics.
func (f *fixture) waiter(ctx context.Context, c *client.Client, topics ...string) <-chan result {
	f.TB.Helper()
	return f.waiting(c, func() <-chan result { return bpop(ctx, c, 0, topics...) }, topics...)
}

// reserver does the same with a Reserve.
func (f *fixture) reserver(ctx context.Context, c *client.Client, lease time.Duration, topics ...string) <-chan result {
	f.TB.Helper()
	return f.waiting(c, func() <-chan result { return reserve(ctx, c, lease, topics...) }, topics...)
}

// reserveBy reserves the topic's next job, which must have this ID.
func (f *fixture) reserveBy(c *client.Client, topic, id string, lease time.Duration) *client.Delivery {
	f.TB.Helper()
	return expectJob(f.TB, reserve(f.TB.Context(), c, lease, topic), id)
}

// reserve reserves the topic's next job, for a minute.
func (f *fixture) reserve(topic string) *client.Delivery {
	f.TB.Helper()
	d, err := f.Reserve(f.TB.Context(), time.Minute, topic)
	check(f.TB, err)
	return d
}

// fetchTopics returns these topics, without further options.
func fetchTopics(names ...string) []client.FetchTopic {
	topics := make([]client.FetchTopic, len(names))
	for i, name := range names {
		topics[i].Topic = name
	}
	return topics
}

// tally counts the outcomes for each job.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (y *tally) add(id string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.counts == nil {
		y.counts = map[string]int{}
	}
	y.counts[id]++
}

func (y *tally) count(id string) int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.counts[id]
}

func (y *tally) total() int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return len(y.counts)
}

// consume pops in the background until the test ends or stop is called.
func (f *fixture) consume(popped *tally, pop func(ctx context.Context) (client.Message, error)) (stop func()) {
	return redistest.Background(f.TB, func(ctx context.Context) error {
		for {
			m, err := pop(ctx)
			switch {
			case err == nil:
				popped.add(m.ID)
			case ctx.Err() != nil:
				return nil
			case errors.Is(err, client.ErrEmpty):
				time.Sleep(time.Millisecond)
			default:
				return err
			}
		}
	})
}
