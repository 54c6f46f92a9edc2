package client_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// A delay or timeout without a unit is refused; a negative delay means at once.
func TestTinyAndNegativeDelays(t *testing.T) {
	f := start(t)
	held := func() *client.Delivery {
		f.push("other", "u")
		return f.reserve("u")
	}
	for name, call := range map[string]func(d time.Duration) error{
		"Push": func(d time.Duration) error { return errOf(f.Push(t.Context(), message("here"), d)) },
		"Push with an option": func(d time.Duration) error {
			return errOf(f.Push(t.Context(), message("here"), d, client.IfExists(client.Debounce(time.Hour))))
		},
		"PushBatch": func(d time.Duration) error {
			return errOf(f.PushBatch(t.Context(), []client.Item{{Message: message("a"), Delay: time.Hour}, {Message: message("here"), Delay: d}}))
		},
		"Reschedule": func(d time.Duration) error { return f.Reschedule(t.Context(), "here", d) },
		"Retry":      func(d time.Duration) error { return held().Retry(t.Context(), d, nil) },
		"Release":    func(d time.Duration) error { return held().Release(t.Context(), d) },
		"BPop":       func(d time.Duration) error { return errOf(f.BPop(t.Context(), d, "none")) },
		"Fetch": func(d time.Duration) error {
			return errOf(f.Fetch(t.Context(), client.FetchOptions{Topics: fetchTopics("none"), Max: 1, Timeout: d}))
		},
	} {
		waits := name == "BPop" || name == "Fetch"
		for _, d := range []time.Duration{30, time.Millisecond - 1} {
			f.seed(waiting("here", "t")...)
			const want = " is less than a millisecond; in Go a number without a unit is in nanoseconds, and 30 seconds are 30*time.Second"
			if err := call(d); !errors.Is(err, client.ErrInvalid) || !strings.HasSuffix(err.Error(), d.String()+want) {
				t.Errorf("%s: %v: %v", name, d, err)
			}
		}
		f.seed(waiting("here", "t")...)
		if err := call(time.Millisecond); err != nil && !(waits && errors.Is(err, client.ErrEmpty)) {
			t.Errorf("%s: %v", name, err)
		}
		f.seed(waiting("here", "t")...)
		err := call(-time.Hour)
		switch ready := f.State().Ready; {
		case waits:
			expectErr(t, name, err, client.ErrInvalid)
		case err != nil || len(ready["t"])+len(ready["u"]) != 1:
			t.Errorf("%s with a negative delay: %v, ready are %v", name, err, ready)
		}
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
