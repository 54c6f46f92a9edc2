package operator

import (
	"context"

	"github.com/mix-basic/delayer/internal/store"
)

// PartitionCounts are the numbers of one partition. One that can't be read is Unknown.
type PartitionCounts = store.PartitionCounts

// Partitions reads the numbers of each partition, of the MostTopics topics at most that were used last.
func (o *Operator) Partitions(ctx context.Context) ([]PartitionCounts, error) {
	counts, err := o.Counts(ctx)
	return counts.Partitions, err
}
