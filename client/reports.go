package client

import (
	"runtime/debug"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// buryFailures is when it was last said of topics that jobs of theirs can't be made dead letters.
type buryFailures struct {
	mu   sync.Mutex
	said map[string]time.Time
}

const (
	// remindEvery is how often it is said at most.
	remindEvery = time.Minute
	// maxSaid is of how many topics it is known.
	maxSaid = 1000
)

// isNews reports whether it is to be said now.
func (p *buryFailures) isNews(topic string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if said, ok := p.said[topic]; ok && now.Sub(said) < remindEvery {
		return false
	}
	if p.said == nil || len(p.said) == maxSaid {
		p.said = map[string]time.Time{}
	}
	p.said[topic] = now
	return true
}

// popped sees to what an answer says besides its jobs.
func (c *Client) popped(p store.Popped) {
	c.tellStale(p.Stale)
	c.tellDeferred(p.Deferred)
}

// tellStale counts the IDs, and tells WithStaleHook's function of them. That may fail as it likes: jobs
// are on their way to callers, who must get them.
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

// tellDeferred says which jobs can't be made dead letters, one of each topic and each minute.
func (c *Client) tellDeferred(list []store.Deferred) {
	for _, p := range list {
		if c.buryFailures.isNews(p.Topic) {
			c.logger.Error("delayer: a job whose attempts are used up can't be made a dead letter, it is tried again every 5 s", "topic", p.Topic, "id", p.ID, "error", p.Why)
		}
	}
}
