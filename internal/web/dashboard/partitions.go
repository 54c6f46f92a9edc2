package dashboard

import (
	"cmp"
	"slices"

	"github.com/mix-basic/delayer/internal/inspect"
)

// maxPartitions is how many partitions the overview shows.
const maxPartitions = 64

// partitionTable is the overview's table of partitions, if there are several.
type partitionTable struct {
	Rows    []inspect.Partition // in order
	Others  int                 // number of partitions not shown, none later than these
	InNodes bool                // there is a cluster
}

// partitionsOf returns the table, or nil for a single partition.
func partitionsOf(s *state) *partitionTable {
	if len(s.Partitions) <= 1 {
		return nil
	}
	all := inspect.WithMovers(s.Partitions, s.Servers)
	slices.SortStableFunc(all, func(a, b inspect.Partition) int { return latestFirst(a.PartitionCounts, b.PartitionCounts) })
	shown := all[:min(len(all), maxPartitions)]
	slices.SortFunc(shown, func(a, b inspect.Partition) int { return cmp.Compare(a.Number, b.Number) })
	return &partitionTable{shown, len(all) - len(shown), slices.ContainsFunc(shown, func(p inspect.Partition) bool { return p.Node != "" })}
}

// latestFirst orders partitions by lateness, unknown ones first.
func latestFirst(a, b inspect.PartitionCounts) int {
	unknown := func(p inspect.PartitionCounts) int { return int(min(p.Overdue, 0)) }
	return cmp.Or(cmp.Compare(unknown(a), unknown(b)), cmp.Compare(b.Overdue, a.Overdue))
}

// worstOf returns the latest readable partition, or the zero value.
func worstOf(counts []inspect.PartitionCounts) (worst inspect.PartitionCounts) {
	counts = slices.DeleteFunc(slices.Clone(counts), func(p inspect.PartitionCounts) bool { return p.Err != nil })
	if len(counts) > 0 {
		worst = slices.MinFunc(counts, latestFirst)
	}
	return worst
}

func brokenOf(counts []inspect.PartitionCounts) (numbers []string) {
	for _, p := range counts {
		if p.Err != nil {
			numbers = append(numbers, number(p.Number))
		}
	}
	return numbers
}
