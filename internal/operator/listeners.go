package operator

import (
	"context"
	"fmt"
	"slices"

	"github.com/mix-basic/delayer/internal/store"
)

// listenersStep is how many topics are asked about at a time.
const listenersStep = 500

// Listeners are how many programs listen for the jobs of each topic, those of this version that wait;
// nil if this Redis user may not know. It costs Redis some 0.1 µs a topic.
func (o *Operator) Listeners(ctx context.Context, topics []string) ([]int, error) {
	all := make([]int, len(topics))
	for _, partition := range o.partitions {
		at := 0
		for part := range slices.Chunk(topics, listenersStep) {
			counts, err := partition.Listeners(ctx, part)
			if store.Refused(err) {
				return nil, nil
			}
			if err != nil {
				return nil, fmt.Errorf("listeners: %w", err)
			}
			for i, n := range counts {
				all[at+i] = max(all[at+i], n) // a program listens in all partitions
			}
			at += len(part)
		}
	}
	return all, nil
}
