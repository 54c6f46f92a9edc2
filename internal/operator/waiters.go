package operator

import (
	"context"
	"fmt"
	"slices"

	"github.com/mix-basic/delayer/internal/store"
)

// waitersStep is how many topics are asked about at a time.
const waitersStep = 500

// Waiters are how many programs wait for jobs of each topic, those of this version; nil if this Redis user
// may not know. They are those of the partitions that can be read.
func (o *Operator) Waiters(ctx context.Context, topics []string) ([]int, error) {
	failed, parts := make(failures, len(o.partitions)), make([][]int, len(o.partitions))
	o.each(ctx, failed, func(ctx context.Context, i int, s *store.Store) error {
		for some := range slices.Chunk(topics, waitersStep) {
			counts, err := s.Waiters(ctx, some)
			if err != nil {
				return err
			}
			parts[i] = append(parts[i], counts...)
		}
		return nil
	})
	if slices.ContainsFunc(failed, store.Refused) {
		return nil, nil
	}
	if err := failed.all(); err != nil {
		return nil, fmt.Errorf("waiters: %w", err)
	}
	all := make([]int, len(topics))
	for i, counts := range parts {
		for k, n := range counts {
			if failed[i] == nil {
				all[k] = max(all[k], n) // a program waits in all partitions
			}
		}
	}
	return all, nil
}
