package operator

import (
	"context"
	"fmt"
	"time"
)

// PartitionCounts are the numbers of one partition. One that can't be read is Unknown.
type PartitionCounts struct {
	Number                         int // from 0 on
	Waiting, Ready, Reserved, Dead int
	// Overdue is for how long its first job has been due, or its first lease has been over, without being moved; 0 if there
	// is none.
	Overdue time.Duration
}

// Partitions reads the numbers of each partition, of MostTopics topics at most, one partition after the other.
func (o *Operator) Partitions(ctx context.Context) ([]PartitionCounts, error) {
	all := make([]PartitionCounts, len(o.partitions))
	for i, partition := range o.partitions {
		topics, _, err := partition.KnownTopics(ctx, MostTopics, "")
		if err != nil {
			return nil, fmt.Errorf("partition %d: %w", i, err)
		}
		found, err := partition.Stats(ctx, topics, true)
		if err != nil {
			return nil, fmt.Errorf("partition %d: %w", i, err)
		}
		p := PartitionCounts{Number: i, Waiting: found.Waiting, Overdue: found.Overdue}
		for _, t := range found.Topics {
			p.Ready, p.Reserved, p.Dead = Plus(p.Ready, t.Ready), Plus(p.Reserved, t.Reserved), Plus(p.Dead, t.Dead)
		}
		all[i] = p
	}
	return all, nil
}
