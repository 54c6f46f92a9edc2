package delayertest

import (
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/mix-basic/delayer/internal/store"
)

// clock is Redis's clock. It stands still, but each script sees a different microsecond: the start time of its script
// identifies a lease, and Redis never returns the same time twice.
//
// The microseconds lie in the millisecond that ends at now, and they repeat. Due times are rounded up to whole
// milliseconds, so delays count exactly from now. A push sees exactly now, so a job due now is ready.
type clock struct {
	redis *miniredis.Miniredis

	mu      sync.Mutex
	now     time.Time // a whole millisecond
	scripts int       // number of scripts so far
	held    bool      // every script sees now
}

func newClock(m *miniredis.Miniredis, now time.Time) *clock {
	c := &clock{redis: m, now: now.Truncate(time.Millisecond)}
	m.SetTime(c.now)
	m.Server().SetPreHook(func(_ *server.Peer, command string, args ...string) bool {
		if command == "EVALSHA" || command == "EVAL" {
			c.tick(len(args) > 0 && store.IsPush(args[0]))
		}
		return false
	})
	return c
}

func (c *clock) tick(pushes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.held:
		return
	case pushes:
		c.redis.SetTime(c.now)
		return
	}
	c.scripts++
	early := time.Duration(999-c.scripts%999) * time.Microsecond
	c.redis.SetTime(c.now.Add(-early))
}

func (c *clock) get() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// hold moves the clock forward and expires keys. Scripts see that time until release.
func (c *clock) hold(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = true
	c.redis.FastForward(at.Sub(c.now))
	c.now = at
	c.redis.SetTime(at)
}

func (c *clock) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = false
}

// wholeMilliseconds rounds up, as Delayer does with delays.
func wholeMilliseconds(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}
