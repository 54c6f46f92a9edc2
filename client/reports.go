package client

import (
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// remindEvery is how often a topic is reported because its jobs cannot become dead letters.
const remindEvery = time.Minute

// popped handles what a reply says besides its jobs.
func (c *Client) popped(p store.Popped) {
	if len(p.Stale) > 0 {
		report(c, c.hooks.stale, p.Stale)
	}
	c.tellDeferred(p.Deferred)
}

func (c *Client) lost(jobs int) { report(c, c.hooks.lost, jobs) }

// report calls hooks. Whatever they do, the jobs of the reply must reach their callers.
func report[T any](c *Client, hooks []func(T), what T) {
	for _, hook := range hooks {
		done := make(chan struct{})
		go func() { // of its own, as the hook may end that, too
			defer close(done)
			c.unlessItPanics(func() { hook(what) })
		}()
		<-done
	}
}

// tellDeferred logs jobs that cannot become dead letters, one for each topic and minute.
func (c *Client) tellDeferred(list []store.Deferred) {
	for _, p := range list {
		if c.buryFailures.IsDue(p.Topic, remindEvery) {
			c.logger.Error("delayer: a job whose attempts are used up can't be made a dead letter, it is tried again every 5 s", "topic", p.Topic, "job", p.ID, "error", p.Why)
		}
	}
}
