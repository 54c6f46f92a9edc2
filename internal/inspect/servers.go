package inspect

import (
	"context"
	"fmt"
	"slices"

	"github.com/mix-basic/delayer/internal/store"
)

// Servers returns the servers that run, and those that ended recently without signing off.
func (o *Inspector) Servers(ctx context.Context) ([]store.ServerState, error) {
	return o.servers(ctx, o.none())
}

// servers is Servers, unless the partition that has their entries has failed.
func (o *Inspector) servers(ctx context.Context, failed failures) (servers []store.ServerState, err error) {
	if err = failed[0]; err == nil {
		err = o.patiently(ctx, func(ctx context.Context) (err error) {
			servers, err = o.fleet.Stores[0].Servers(ctx) // this partition has the entries of all servers
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read servers: %w", err)
	}
	return servers, nil
}

// acked returns how many jobs were ever acknowledged. It fails if some partition has failed: the sum of the others would
// look like a decrease.
func (o *Inspector) acked(ctx context.Context, failed failures) (all int64, err error) {
	failed = slices.Clone(failed)
	if err = failed.any(); err == nil {
		var parts []int64
		parts, _ = gather(ctx, o, failed, func(ctx context.Context, _ int, s *store.Store) (int64, error) { return s.Acked().Do(ctx) })
		for _, acked := range parts {
			all += acked
		}
		err = failed.any()
	}
	if err != nil {
		return 0, fmt.Errorf("count acknowledged jobs: %w", err)
	}
	return all, nil
}

// History returns what the servers did in the last hour, in steps of ten seconds, the oldest first.
func (o *Inspector) History(ctx context.Context) ([]store.Past, error) {
	past, err := o.fleet.Stores[0].History(ctx) // this partition has the history of all
	if err != nil {
		return nil, fmt.Errorf("read statistics: %w", err)
	}
	return past, nil
}
