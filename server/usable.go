package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
)

// usable fails if the server, or ctx, is nothing to work with.
func (s *Server) usable(ctx context.Context) error {
	switch {
	case s == nil || s.store == nil:
		return errors.New("server: it was not made with New")
	case ctx == nil:
		return errors.New("server: ctx is nil")
	}
	return s.wrong
}

// check refuses what no server can be made of.
func (o Options) check(pool *redis.Pool) error {
	if pool == nil {
		return errors.New("server: pool is nil; client.NewPool makes one")
	}
	return cmp.Or(checkUnit("Interval", o.Interval), checkUnit("DeadMaxAge", o.DeadMaxAge))
}

// checkUnit refuses what must have been meant to be longer.
func checkUnit(option string, d time.Duration) error {
	if d > 0 && d < time.Millisecond {
		return fmt.Errorf("server: %s %v is less than a millisecond; in Go a number without a unit is in nanoseconds, and 30 seconds are 30*time.Second", option, d)
	}
	return nil
}
