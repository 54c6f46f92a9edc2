package operator

import (
	"context"

	"github.com/mix-basic/delayer/internal/store"
)

// PartitionCounts are the numbers of one partition. One that can't be read is Unknown.
type PartitionCounts = store.PartitionCounts

// Partition is one with its mover.
type Partition struct {
	PartitionCounts
	// Mover is the server that should move its jobs. It has no ID if none says that it runs, or this Redis user may not know.
	Mover store.ServerState
}

// Partitions reads the numbers of each partition, of the MostTopics topics at most that were used last.
func (o *Operator) Partitions(ctx context.Context) ([]Partition, error) {
	counts, err := o.Counts(ctx)
	if err != nil {
		return nil, err
	}
	servers, err := o.Servers(ctx)
	if err != nil && !store.Refused(err) {
		return nil, err
	}
	return WithMovers(counts.Partitions, servers), nil
}

// WithMovers adds which of the servers should move each.
func WithMovers(counts []PartitionCounts, servers []store.ServerState) []Partition {
	alive := store.Alive(servers)
	all := make([]Partition, len(counts))
	for i, c := range counts {
		all[i] = Partition{c, store.Mover(c.Number, alive)}
	}
	return all
}
