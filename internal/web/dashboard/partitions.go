package dashboard

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/mix-basic/delayer/internal/inspect"
)

// maxPartitions is how many partitions the overview shows.
const maxPartitions = 64

// fewPartitions are so few that each is shown as it is.
const fewPartitions = 8

// partitionTable is what the overview shows of partitions, where there are several.
type partitionTable struct {
	Rows    []partitionRow      // those that are alike in one, the others in their order
	Shown   []inspect.Partition // each, in their order; nil if the rows are that
	Others  int                 // how many more there are, which are not later than these
	InNodes bool                // of a cluster
}

// partitionRow is a partition, or several that are alike: nothing is wrong with them, one server moves their jobs, and they are on one node.
type partitionRow struct {
	inspect.Partition // of several the sums
	Numbers           string
	Partitions        int
}

// partitionsOf makes it of a sample; nil where there is one partition.
func partitionsOf(s *sample) *partitionTable {
	if len(s.Partitions) <= 1 {
		return nil
	}
	all := inspect.WithMovers(s.Partitions, s.Beats.List)
	slices.SortStableFunc(all, func(a, b inspect.Partition) int { return latestFirst(a.PartitionCounts, b.PartitionCounts) })
	shown := all[:min(len(all), maxPartitions)]
	slices.SortFunc(shown, func(a, b inspect.Partition) int { return cmp.Compare(a.Number, b.Number) })
	inNodes := slices.ContainsFunc(shown, func(p inspect.Partition) bool { return p.Node != "" })
	t := &partitionTable{rowsOf(shown, len(shown) > fewPartitions), nil, len(all) - len(shown), inNodes}
	if len(t.Rows) < len(shown) {
		t.Shown = shown
	}
	return t
}

// rowsOf makes rows of the partitions. If fold is set, those that are alike are one.
func rowsOf(all []inspect.Partition, fold bool) (rows []partitionRow) {
	type likeness struct{ node, mover string }
	places := map[likeness]int{}
	numbers := make([][]int, 0, len(all))
	for _, p := range all {
		is := likeness{p.Node, p.Mover.ID}
		ordinary := fold && p.Err == nil && !p.Before && p.Overdue >= 0 && p.Overdue < slightlyLate && p.Mover.ID != ""
		if place, known := places[is]; ordinary && known {
			row := &rows[place]
			row.Partitions++
			row.Waiting, row.Ready = inspect.Plus(row.Waiting, p.Waiting), inspect.Plus(row.Ready, p.Ready)
			row.Reserved, row.Dead = inspect.Plus(row.Reserved, p.Reserved), inspect.Plus(row.Dead, p.Dead)
			row.Overdue = max(row.Overdue, p.Overdue)
			numbers[place] = append(numbers[place], p.Number)
			continue
		} else if ordinary {
			places[is] = len(rows)
		}
		rows, numbers = append(rows, partitionRow{Partition: p, Partitions: 1}), append(numbers, []int{p.Number})
	}
	for i := range rows {
		rows[i].Numbers = ranges(numbers[i])
	}
	return rows
}

// ranges are whole numbers that grow, in short: 0–3, 7.
func ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		end := i + 1
		for end < len(numbers) && numbers[end] == numbers[end-1]+1 {
			end++
		}
		part := strconv.Itoa(numbers[i])
		if end > i+1 {
			part += "–" + strconv.Itoa(numbers[end-1])
		}
		parts = append(parts, part)
		i = end
	}
	return strings.Join(parts, ", ")
}

// latestFirst orders partitions by how late they are; those of which nobody knows come first.
func latestFirst(a, b inspect.PartitionCounts) int {
	unknown := func(p inspect.PartitionCounts) int { return int(min(p.Overdue, 0)) }
	return cmp.Or(cmp.Compare(unknown(a), unknown(b)), cmp.Compare(b.Overdue, a.Overdue))
}

// worstOf is the partition that is latest, of those that can be read; the zero one if there is none.
func worstOf(counts []inspect.PartitionCounts) (worst inspect.PartitionCounts) {
	counts = slices.DeleteFunc(slices.Clone(counts), func(p inspect.PartitionCounts) bool { return p.Err != nil })
	if len(counts) > 0 {
		worst = slices.MinFunc(counts, latestFirst)
	}
	return worst
}

// brokenOf are the numbers of the partitions that can't be read.
func brokenOf(counts []inspect.PartitionCounts) (numbers []string) {
	for _, p := range counts {
		if p.Err != nil {
			numbers = append(numbers, number(p.Number))
		}
	}
	return numbers
}
