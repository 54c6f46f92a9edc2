package dashboard

import (
	"cmp"
	"slices"

	"github.com/mix-basic/delayer/internal/operator"
)

// maxPartitions is how many partitions the overview shows.
const maxPartitions = 64

// partitionTable is what the overview shows of partitions, where there are several.
type partitionTable struct {
	Shown   []operator.Partition // in their order
	Others  int                  // how many more there are, which are not later than these
	InNodes bool                 // of a cluster
}

// partitionsOf makes it of a sample; nil where there is one partition.
func partitionsOf(s *sample) *partitionTable {
	if len(s.Partitions) <= 1 {
		return nil
	}
	all := operator.WithMovers(s.Partitions, s.Beats.List)
	slices.SortStableFunc(all, func(a, b operator.Partition) int { return latestFirst(a.PartitionCounts, b.PartitionCounts) })
	shown := all[:min(len(all), maxPartitions)]
	slices.SortFunc(shown, func(a, b operator.Partition) int { return cmp.Compare(a.Number, b.Number) })
	inNodes := slices.ContainsFunc(shown, func(p operator.Partition) bool { return p.Node != "" })
	return &partitionTable{shown, len(all) - len(shown), inNodes}
}

// latestFirst orders partitions by how late they are; those of which nobody knows come first.
func latestFirst(a, b operator.PartitionCounts) int {
	unknown := func(p operator.PartitionCounts) int { return int(min(p.Overdue, 0)) }
	return cmp.Or(cmp.Compare(unknown(a), unknown(b)), cmp.Compare(b.Overdue, a.Overdue))
}

// worstOf is the partition that is latest, of those that can be read; the zero one if there is none.
func worstOf(counts []operator.PartitionCounts) (worst operator.PartitionCounts) {
	counts = slices.DeleteFunc(slices.Clone(counts), func(p operator.PartitionCounts) bool { return p.Err != nil })
	if len(counts) > 0 {
		worst = slices.MinFunc(counts, latestFirst)
	}
	return worst
}

// brokenOf are the numbers of the partitions that can't be read.
func brokenOf(counts []operator.PartitionCounts) (numbers []string) {
	for _, p := range counts {
		if p.Err != nil {
			numbers = append(numbers, number(p.Number))
		}
	}
	return numbers
}
