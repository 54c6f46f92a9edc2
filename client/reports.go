package client

import (
	"runtime/debug"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// remindEvery is how often a topic is reported because its jobs cannot become dead letters.
const remindEvery = time.Minute

// popped handles what a reply says besides its jobs.
func (c *Client) popped(p store.Popped) {
	c.tellStale(p.Stale)
	c.tellDeferred(p.Deferred)
}

// tellStale counts the IDs and passes them to WithStaleHook's function. Whatever that function does, the jobs of
// the reply must reach their callers.
func (c *Client) tellStale(ids []string) {
	if len(ids) == 0 {
		return
	}
	c.stale.Add(int64(len(ids)))
	if c.onStale == nil {
		return
	}
	done := make(chan struct{})
	go func() { // of its own, as it may end that, too
		defer close(done)
		defer func() {
			if why := recover(); why != nil {
				c.logger.Error("delayer: the function of WithStaleHook has panicked", "panic", why, "stack", string(debug.Stack()))
			}
		}()
		c.onStale(ids)
	}()
	<-done
}

// tellDeferred logs jobs that cannot become dead letters, one for each topic and minute.
func (c *Client) tellDeferred(list []store.Deferred) {
	for _, p := range list {
		if c.buryFailures.IsDue(p.Topic, remindEvery) {
			c.logger.Error("delayer: a job whose attempts are used up can't be made a dead letter, it is tried again every 5 s", "topic", p.Topic, "job", p.ID, "error", p.Why)
		}
	}
}
