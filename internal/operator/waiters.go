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
// may not know.
func (o *Operator) Waiters(ctx context.Context, topics []string) ([]int, error) {
	all := make([]int, len(topics))
	for _, partition := range o.partitions {
		at := 0
		for part := range slices.Chunk(topics, waitersStep) {
			counts, err := partition.Waiters(ctx, part)
			if store.Refused(err) {
				return nil, nil
			}
			if err != nil {
				return nil, fmt.Errorf("waiters: %w", err)
			}
			for i, n := range counts {
				all[at+i] = max(all[at+i], n) // a program waits in all partitions
			}
			at += len(part)
		}
	}
	return all, nil
}
