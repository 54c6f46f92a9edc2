package operator

import (
	"context"
	"fmt"

	"github.com/mix-basic/delayer/internal/store"
)

// Servers are those that run, and those that have ended lately without saying so.
func (o *Operator) Servers(ctx context.Context) ([]store.ServerState, error) {
	servers, err := o.partitions[0].Servers(ctx) // where those of all partitions are
	if err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	return servers, nil
}

// Acked is how many jobs were ever acknowledged.
func (o *Operator) Acked(ctx context.Context) (int64, error) {
	all := int64(0)
	for _, partition := range o.partitions {
		acked, err := partition.Acked(ctx)
		if err != nil {
			return 0, fmt.Errorf("acked: %w", err)
		}
		all += acked
	}
	return all, nil
}
