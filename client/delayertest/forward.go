package delayertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/store"
)

// Forward advances the clock by this duration, rounded up to milliseconds. When it returns, each job that is due by
// then is in its ready queue: waiting jobs, retries, and jobs whose leases ended, each at its time. A ready job at the
// end of its lifetime is a dead letter if it was the first of its queue, else it is gone.
//
// Waiting consumers, such as a running worker, get the jobs at once, but Forward does not wait for them. The same holds
// for consumers throttled by a topic's limit, if the limit admits them by then. If the limit would have admitted them
// within 5 s anyway, they may be up to 5 s late by the host's clock.
//
// With 0 the clock stays where it is.
func (d *Delayer) Forward(t testing.TB, by time.Duration) {
	t.Helper()
	if by < 0 {
		t.Fatalf("delayertest: Forward by %s: time does not go back; want 0 or more", duration.Format(by))
	}
	d.forwarding.Lock()
	defer d.forwarding.Unlock()
	defer d.clock.release()
	until := d.clock.get().Add(wholeMilliseconds(by))
	for {
		next, err := d.nextDue(d.clock.nextExpiry(d.store.Keys().JobBucket(""), until))
		if err != nil {
			t.Fatalf("delayertest: Forward: %v", err)
		}
		d.clock.hold(next)
		if err := cmp.Or(d.clock.keep(d.store.Keys().Topics()), d.server.Pass(context.Background())); err != nil {
			t.Fatalf("delayertest: Forward: %v", err)
		}
		if next.Equal(until) {
			break
		}
	}
	if err := d.wakeThrottled(); err != nil {
		t.Fatalf("delayertest: Forward: %v", err)
	}
}

// wakeThrottled makes throttled consumers poll again, because they wait by the host's clock.
func (d *Delayer) wakeThrottled() error {
	limits, err := d.store.Limits(context.Background())
	if err != nil || len(limits) == 0 {
		return err
	}
	_, err = d.store.Wake(slices.Collect(maps.Keys(limits))).Do(context.Background())
	return err
}

// nextDue returns the millisecond of the next due time, or until if that comes first.
func (d *Delayer) nextDue(until time.Time) (time.Time, error) {
	conn := d.pool.Get()
	defer conn.Close()
	now := d.clock.get()
	first, err := redis.Strings(conn.Do("ZRANGEBYSCORE", d.store.Keys().JobPool(), "("+score(now), score(until), "WITHSCORES", "LIMIT", 0, 1))
	if err != nil || len(first) == 0 {
		return until, err
	}
	seconds, err := strconv.ParseFloat(first[1], 64)
	due := time.UnixMicro(int64(seconds*1e6 + 0.5))
	return now.Add(wholeMilliseconds(due.Sub(now))), err
}

// score formats a time as the pool does.
func score(t time.Time) string { return fmt.Sprintf("%d.%03d", t.Unix(), t.Nanosecond()/1e6) }

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

// nextExpiry returns the last millisecond of the next hash with this prefix that expires, in which the server can still
// bury its job, or until if that comes first.
func (c *clock) nextExpiry(prefix string, until time.Time) time.Time {
	now := c.get()
	for _, key := range c.redis.Keys() {
		if last := now.Add(c.redis.TTL(key) - time.Millisecond); strings.HasPrefix(key, prefix) && last.After(now) && last.Before(until) {
			until = last
		}
	}
	return until
}

// keep makes all known topics count as used now, so that the server forgets none: a client registers a topic once in
// ten seconds by the host's clock.
func (c *clock) keep(topics string) error {
	known, err := c.redis.SortedSet(topics)
	if errors.Is(err, miniredis.ErrKeyNotFound) {
		return nil
	}
	for topic := range known {
		_, err = c.redis.ZAdd(topics, float64(c.get().Unix()), topic)
	}
	return err
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
