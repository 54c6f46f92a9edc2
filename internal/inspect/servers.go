package inspect

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/mix-basic/delayer/internal/store"
)

// Servers are those that run, and those that have ended lately without saying so.
func (o *Inspector) Servers(ctx context.Context) ([]store.ServerState, error) {
	return o.servers(ctx, make(failures, len(o.fleet.Stores)))
}

// servers is Servers, unless the partition that has them has failed.
func (o *Inspector) servers(ctx context.Context, failed failures) (servers []store.ServerState, err error) {
	if err = failed[0]; err == nil {
		err = o.patiently(ctx, func(ctx context.Context) (err error) {
			servers, err = o.fleet.Stores[0].Servers(ctx) // where those of all partitions are
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	return servers, nil
}

// Acked is how many jobs were ever acknowledged.
func (o *Inspector) Acked(ctx context.Context) (int64, error) {
	return o.acked(ctx, make(failures, len(o.fleet.Stores)))
}

// acked is Acked, unless some partition has failed.
func (o *Inspector) acked(ctx context.Context, failed failures) (int64, error) {
	if err := failed.any(); err != nil {
		return 0, fmt.Errorf("acked: %w", err)
	}
	failed = slices.Clone(failed)
	var all atomic.Int64
	o.each(ctx, failed, func(ctx context.Context, _ int, s *store.Store) error {
		acked, err := s.Acked(ctx)
		all.Add(acked)
		return err
	})
	if err := failed.any(); err != nil { // what the others have would look like a fall
		return 0, fmt.Errorf("acked: %w", err)
	}
	return all.Load(), nil
}
