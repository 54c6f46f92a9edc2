package inspect

import (
	"context"
	"fmt"
	"slices"

	"github.com/mix-basic/delayer/internal/store"
)

// Servers are those that run, and those that have ended lately without saying so.
func (o *Inspector) Servers(ctx context.Context) ([]store.ServerState, error) {
	return o.servers(ctx, o.none())
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
	return o.acked(ctx, o.none())
}

// acked is Acked, unless some partition has failed: what the others have would look like a fall.
func (o *Inspector) acked(ctx context.Context, failed failures) (all int64, err error) {
	failed = slices.Clone(failed)
	if err = failed.any(); err == nil {
		var parts []int64
		parts, _ = gather(ctx, o, failed, func(ctx context.Context, _ int, s *store.Store) (int64, error) { return s.Acked(ctx) })
		for _, acked := range parts {
			all += acked
		}
		err = failed.any()
	}
	if err != nil {
		return 0, fmt.Errorf("acked: %w", err)
	}
	return all, nil
}

// History is what the servers have done in the last hour, ten seconds at a time, the oldest first.
func (o *Inspector) History(ctx context.Context) ([]store.Past, error) {
	past, err := o.fleet.Stores[0].History(ctx) // where that of all partitions is
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return past, nil
}
