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

// fewPartitions is the number up to which each partition has its own row.
const fewPartitions = 8

// partitionTable is the overview's table of partitions, if there are several.
type partitionTable struct {
	Rows    []partitionRow      // alike partitions share a row
	Shown   []inspect.Partition // each partition in order; nil if the rows are that
	Others  int                 // number of partitions not shown, none later than these
	InNodes bool                // there is a cluster
}

// partitionRow is a partition, or several alike: healthy, moved by the same server, and on the same node.
type partitionRow struct {
	inspect.Partition // sums, if there are several
	Numbers           string
	Partitions        int
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
	inNodes := slices.ContainsFunc(shown, func(p inspect.Partition) bool { return p.Node != "" })
	t := &partitionTable{rowsOf(shown, len(shown) > fewPartitions), nil, len(all) - len(shown), inNodes}
	if len(t.Rows) < len(shown) {
		t.Shown = shown
	}
	return t
}

// rowsOf returns the rows; fold merges alike partitions.
func rowsOf(all []inspect.Partition, fold bool) (rows []partitionRow) {
	type likeness struct{ node, mover string }
	places := map[likeness]int{}
	numbers := make([][]int, 0, len(all))
	for _, p := range all {
		is := likeness{p.Node, p.Mover.ID}
		ordinary := fold && p.Err == nil && p.Overdue >= 0 && p.Overdue < slightlyLate && p.Mover.ID != ""
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

// ranges formats ascending numbers in short: 0–3, 7.
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
