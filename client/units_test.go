package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// A delay or timeout without a unit is accepted, because it may be the rest of a computed one. The Client's logger
// warns of the first one only.
func TestTinyDelaysAreNoted(t *testing.T) {
	f := start(t)
	const tiny = 30
	for name, call := range map[string]func(ctx context.Context, c *client.Client, d time.Duration) error{
		"Push": func(ctx context.Context, c *client.Client, d time.Duration) error {
			return errOf(c.Push(ctx, message("a"), d))
		},
		"PushBatch": func(ctx context.Context, c *client.Client, d time.Duration) error {
			return errOf(c.PushBatch(ctx, []client.Item{{Message: message("a"), Delay: time.Hour}, {Message: message("b"), Delay: d}}))
		},
		"Reschedule": func(ctx context.Context, c *client.Client, d time.Duration) error {
			return c.Reschedule(ctx, "here", d)
		},
		"Retry": func(ctx context.Context, _ *client.Client, d time.Duration) error {
			return f.reserve("u").Retry(ctx, d, nil)
		},
		"Release": func(ctx context.Context, _ *client.Client, d time.Duration) error {
			return f.reserve("u").Release(ctx, d)
		},
		"BPop": func(ctx context.Context, c *client.Client, d time.Duration) error {
			return errOf(c.BPop(ctx, d, "none"))
		},
		"Fetch": func(ctx context.Context, c *client.Client, d time.Duration) error {
			return errOf(c.Fetch(ctx, client.FetchOptions{Topics: fetchTopics("none"), Max: 1, Timeout: d}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log redistest.Log
			c := f.open(client.WithLogger(log.Logger()))
			use := func(d time.Duration, lines int) {
				t.Helper()
				f.seed(waiting("here", "t")...)
				f.push("other", "u")
				f.Client = c // the Client that settles the delivery
				err := call(t.Context(), c, d)
				if err != nil && !errors.Is(err, client.ErrEmpty) {
					t.Errorf("%v: %v", d, err)
				}
				if got := log.Lines(); len(got) != lines || lines > 0 && !strings.Contains(got[0], fmt.Sprintf("of %v is taken as it is, but in Go a number without a unit is in nanoseconds, and 30 seconds are 30*time.Second", time.Duration(tiny))) {
					t.Errorf("%v: the log has %q", d, got)
				}
			}
			use(time.Millisecond, 0)
			use(tiny, 1)
			use(time.Millisecond-1, 1)
		})
	}
}

// A pool is not opened with times without units, because they would work badly or not at all.
func TestTinyTimesOfAPool(t *testing.T) {
	f := start(t)
	for field, o := range map[string]client.PoolOptions{
		"connect timeout":         {ConnectTimeout: 3},
		"read timeout":            {ReadTimeout: 3},
		"write timeout":           {WriteTimeout: 3},
		"idle timeout":            {IdleTimeout: 3},
		"max connection lifetime": {MaxConnLifetime: 3},
	} {
		o.Addr = f.Addr
		_, err := client.OpenPool(o)
		if !errors.Is(err, client.ErrInvalid) || !strings.Contains(err.Error(), "invalid "+field+": 3ns is less than a millisecond") {
			t.Errorf("%s: %v", field, err)
		}
	}
	c := redistest.Must(client.OpenPool(client.PoolOptions{Addr: f.Addr, ConnectTimeout: -1, ReadTimeout: -1, WriteTimeout: -1, IdleTimeout: -1, MaxConnLifetime: -1}))
	defer c.Close()
	if err := c.Ping(t.Context()); err != nil {
		t.Errorf("without limits: %v", err)
	}
}
