package operator

import (
	"context"
	"fmt"
	"slices"

	"github.com/mix-basic/delayer/internal/store"
)

// History is what the servers have done in the last hour, ten seconds at a time, the oldest first.
func (o *Operator) History(ctx context.Context) ([]store.Past, error) {
	var all []store.Past
	for _, partition := range o.partitions {
		part, err := partition.History(ctx)
		if err != nil {
			return nil, fmt.Errorf("history: %w", err)
		}
		for _, p := range part {
			i, found := slices.BinarySearchFunc(all, p, func(a, b store.Past) int { return a.From.Compare(b.From) })
			if !found {
				all = slices.Insert(all, i, p)
				continue
			}
			all[i].Lateness = all[i].Lateness.Plus(p.Lateness)
			if all[i].Acked >= 0 && p.Acked >= 0 {
				all[i].Acked += p.Acked
			} else {
				all[i].Acked = Unknown
			}
		}
	}
	return all, nil
}
