package server

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/fleet"
)

// Unusable arguments cause an error and no panic, and nothing is dropped.
func TestUnusable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var none context.Context
	pool := w.pool()
	w.bury("t", time.Second, "a")
	before := w.Do("DBSIZE")
	for name, c := range map[string]struct {
		server *Server
		ctx    context.Context
		want   string
	}{
		"nil":             {nil, t.Context(), "not made with New"},
		"zero":            {new(Server), t.Context(), "not made with New"},
		"no Redis":        {New(nil, Options{}), t.Context(), "redis: it is nil"},
		"no context":      {New(pool, Options{}), none, "ctx is nil"},
		"tiny interval":   {New(pool, Options{Interval: 1000}), t.Context(), "Interval 1µs is less than a millisecond; in Go a number without a unit is in nanoseconds"},
		"tiny age":        {New(pool, Options{DeadMaxAge: 14}), t.Context(), "DeadMaxAge 14ns is less than a millisecond"},
		"many partitions": {New(pool, Options{Partitions: fleet.MaxPartitions + 1}), t.Context(), "is not from 1 to"},
		"braces":          {New(pool, Options{Partitions: 2, Prefix: "{a}:"}), t.Context(), "has braces"},
		"tiny, not alone": {New(pool, Options{Interval: time.Second, DeadMaxAge: time.Millisecond - 1}), t.Context(), "DeadMaxAge 999.999µs is less"},
	} {
		for call, err := range map[string]error{"Run": c.server.Run(c.ctx), "Pass": c.server.Pass(c.ctx), "Check": c.server.Check(c.ctx)} {
			if err == nil || errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %s: %v, want %q", name, call, err, c.want)
			}
		}
	}
	if after := w.Do("DBSIZE"); after != before {
		t.Errorf("%v keys, there were %v", after, before)
	}
	check(t, New(pool, Options{Interval: time.Millisecond, DeadMaxAge: time.Hour}).Pass(t.Context()))
}
