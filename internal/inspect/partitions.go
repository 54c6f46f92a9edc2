package inspect

import (
	"context"
	"time"

	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
)

// PartitionCounts are the numbers of one partition. One that cannot be read is Unknown.
type PartitionCounts struct {
	Number                         int    // from 0 on
	Node                           string // the address of its cluster node, else empty
	Waiting, Ready, Reserved, Dead int    // all but Waiting are of the topics that were asked for
	// Overdue is how long its first job has been due, or its first lease over, without being moved; 0 if none
	// is.
	Overdue time.Duration
	Err     error // why nothing can be read; nil if something can
}

// partitionCounts adds up the topics' numbers.
func partitionCounts(s store.Stats) PartitionCounts {
	all := PartitionCounts{Waiting: s.Waiting, Overdue: s.Overdue}
	for _, t := range s.Topics {
		all.Ready, all.Reserved, all.Dead = Plus(all.Ready, t.Ready), Plus(all.Reserved, t.Reserved), Plus(all.Dead, t.Dead)
	}
	return all
}

func (c *PartitionCounts) unknown() {
	c.Waiting, c.Ready, c.Reserved, c.Dead, c.Overdue = Unknown, Unknown, Unknown, Unknown, Unknown
}

// Partition is a partition and its server.
type Partition struct {
	PartitionCounts
	// Mover is the server that should move its jobs. It has no ID if no server runs, or if this Redis user may not know.
	Mover store.ServerState
}

// Partitions reads the numbers of each partition, for up to MostTopics topics that were used last.
func (o *Inspector) Partitions(ctx context.Context) ([]Partition, error) {
	counts, err := o.Counts(ctx)
	if err != nil {
		return nil, err
	}
	servers, err := o.Servers(ctx)
	if err != nil && !store.Refused(err) && counts.Partitions[0].Err == nil { // this partition has the servers' entries
		return nil, err
	}
	return WithMovers(counts.Partitions, servers), nil
}

// WithMovers adds which server should move each partition's jobs.
func WithMovers(counts []PartitionCounts, servers []store.ServerState) []Partition {
	alive := store.Alive(servers)
	all := make([]Partition, len(counts))
	for i, c := range counts {
		all[i] = Partition{c, fleet.Mover(c.Number, alive)}
	}
	return all
}
