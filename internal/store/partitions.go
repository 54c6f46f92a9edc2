package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Partitions are Stores that have all the jobs together.
type Partitions []*Store

// MaxPartitions is how many there are at most.
const MaxPartitions = 1024

// CheckPartitions says why there can't be n partitions of that prefix.
func CheckPartitions(n int, prefix string) error {
	switch {
	case n < 0 || n > MaxPartitions:
		return fmt.Errorf("partitions: %d is not from 1 to %d", n, MaxPartitions)
	case n > 1 && strings.ContainsAny(prefix, "{}"):
		return fmt.Errorf("prefix: %s has braces, which the keys of %d partitions have themselves", Quote(prefix), n)
	}
	return nil
}

// NewPartitions makes n of them, of the jobs on the pool's Redis. A single one has the prefix, as the original
// does. Of several, each has its number in braces behind it, "delayer:{3}:", so that all of its keys
// are in one slot of a Redis Cluster. Before their first call they ask Redis whether n is what others have, too,
// and refuse to work with a LayoutError if it isn't.
func NewPartitions(pool *redis.Pool, prefix string, n int) Partitions {
	if n <= 1 {
		return Partitions{New(pool, prefix)}
	}
	p := make(Partitions, n)
	for i := range p {
		p[i] = New(pool, Keys{prefix}.partition(i).prefix)
	}
	keeper := *p[0]
	check := newLayoutCheck(&keeper, n)
	for _, s := range p {
		s.layoutCheck = check
	}
	return p
}

// Of is the partition that the job of that ID belongs to.
func (p Partitions) Of(id string) *Store { return p[PartitionOf(id, len(p))] }

// Nodes are the first partitions of each node.
func (p Partitions) Nodes() []*Store {
	var first []*Store
	seen := map[any]bool{}
	for _, s := range p {
		if node := s.Node(); !seen[node] {
			seen[node] = true
			first = append(first, s)
		}
	}
	return first
}

// KnownTopics is Store.KnownTopics of all partitions.
func (p Partitions) KnownTopics(ctx context.Context, most int, containing string) (names []string, all int, err error) {
	return p.names(most, func(s *Store) ([]string, int, error) { return s.KnownTopics(ctx, most, containing) })
}

// DeadTopics is Store.DeadTopics of all partitions.
func (p Partitions) DeadTopics(ctx context.Context, most int) (names []string, all int, err error) {
	return p.names(most, func(s *Store) ([]string, int, error) { return s.DeadTopics(ctx, most) })
}

// names joins names of topics, each once. Of several partitions the last ones are those that are among the last of any, and
// their number is a lower bound.
func (p Partitions) names(most int, of func(*Store) ([]string, int, error)) (names []string, all int, err error) {
	behind := map[string]int{} // how many names of a partition are behind it
	for _, s := range p {
		part, known, err := of(s)
		if err != nil {
			return nil, 0, err
		}
		if len(p) == 1 {
			return part, known, nil
		}
		for i, name := range part {
			if n, met := behind[name]; !met || len(part)-i < n {
				behind[name] = len(part) - i
			}
		}
		all = max(all, known)
	}
	names = slices.SortedFunc(maps.Keys(behind), func(a, b string) int {
		return cmp.Or(cmp.Compare(behind[b], behind[a]), strings.Compare(a, b))
	})
	return names[max(len(names)-most, 0):], max(all, len(names)), nil
}

// PartitionCounts are the numbers of one partition. What can't be read is -1.
type PartitionCounts struct {
	Number                         int    // from 0 on
	Node                           string // the address of the cluster's node that has it; empty if there is none
	Waiting, Ready, Reserved, Dead int    // all but Waiting are of the topics that were asked for
	// Overdue is for how long its first job has been due, or its first lease has been over, without being moved; 0 if there
	// is none.
	Overdue time.Duration
}

// Stats is Store.Stats of all partitions, and what each has of it. Its Time is that of the first one: the numbers of the
// others are a little younger.
func (p Partitions) Stats(ctx context.Context, topics []string, late bool) (all Stats, each []PartitionCounts, err error) {
	each = make([]PartitionCounts, len(p))
	for i, s := range p {
		part, err := s.Stats(ctx, topics, late)
		if err != nil {
			return Stats{}, nil, p.named(i, err)
		}
		each[i] = part.ofPartition()
		each[i].Number, each[i].Node = i, s.NodeAddr()
		if i == 0 {
			all = part
		} else {
			all.add(part)
		}
	}
	return all, each, nil
}

// named says which partition an error is of, where there are several.
func (p Partitions) named(i int, err error) error {
	if len(p) > 1 {
		return fmt.Errorf("partition %d: %w", i, err)
	}
	return err
}

// ofPartition adds up the topics' numbers.
func (s *Stats) ofPartition() PartitionCounts {
	all := PartitionCounts{Waiting: s.Waiting, Overdue: s.Overdue}
	for _, t := range s.Topics {
		all.Ready, all.Reserved, all.Dead = Plus(all.Ready, t.Ready), Plus(all.Reserved, t.Reserved), Plus(all.Dead, t.Dead)
	}
	return all
}

// add adds another partition's numbers of the same topics.
func (s *Stats) add(part Stats) {
	s.Pool += part.Pool
	s.Waiting += part.Waiting
	s.Overdue = larger(s.Overdue, part.Overdue)
	for i, t := range part.Topics {
		sum := &s.Topics[i]
		sum.Ready, sum.Reserved, sum.Dead = Plus(sum.Ready, t.Ready), Plus(sum.Reserved, t.Reserved), Plus(sum.Dead, t.Dead)
		sum.Overdue, sum.AtLeast = larger(sum.Overdue, t.Overdue), max(sum.AtLeast, t.AtLeast)
	}
}

// overdueAtATime is how many partitions of a node are asked together for how long their jobs have been due.
const overdueAtATime = 64

// Overdue is Store.Overdue of the partition where that is longest, and its number: of the first one that it can't be read of,
// if there is such a one.
func (p Partitions) Overdue(ctx context.Context) (longest time.Duration, partition int, err error) {
	if len(p) == 1 {
		longest, err = p[0].Overdue(ctx)
		return longest, 0, err
	}
	call := func(i int) *Call[Stats] { return p[i].statsPage(nil, true, false) }
	InTurn(ctx, p, overdueAtATime, call, func(i int, part Stats, failed error) bool {
		if failed != nil {
			err = p.named(i, failed)
			return false
		}
		if larger(longest, part.Overdue) != longest {
			longest, partition = part.Overdue, i
		}
		return true
	})
	return longest, partition, err
}

// IsKnown reports whether any of the partitions knows the topic.
func (p Partitions) IsKnown(ctx context.Context, topic string) (known bool, err error) {
	for _, s := range p {
		if known, err = s.IsKnown(ctx, topic); known || err != nil {
			break
		}
	}
	return known, err
}

// Plus adds numbers. -1 is one that is not known; then neither is the sum.
func Plus(a, b int) int {
	if a < 0 || b < 0 {
		return -1
	}
	return a + b
}

// larger is the larger of both, or -1 if one is not known.
func larger(a, b time.Duration) time.Duration {
	if a < 0 || b < 0 {
		return -1
	}
	return max(a, b)
}
