package store

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Partitions are Stores that have all the jobs together: those of the layout, and behind them those of the layout
// before that are none of it.
type Partitions []*Store

// MaxPartitions is how many there are at most.
const MaxPartitions = 1024

// NewPartitions makes n of them, where there never was another number.
func NewPartitions(pool *redis.Pool, prefix string, n int) Partitions {
	return Layout{Partitions: n}.Open(pool, prefix)
}

// Open makes Partitions of the jobs on the pool's Redis. A single one has the prefix, as the original
// does. Of several, each has its number in braces behind it, "delayer:{3}:", so that all of its keys
// are in one slot of a Redis Cluster. Before their first call they ask Redis whether the layout is what others have, too,
// and refuse to work with a LayoutError if it isn't.
func (l Layout) Open(pool *redis.Pool, prefix string) Partitions {
	var p Partitions
	for _, keys := range l.keys(Keys{prefix}) {
		p = append(p, New(pool, keys.prefix))
	}
	if len(p) > 1 {
		check := newLayoutCheck(pool, Keys{prefix}, l)
		for _, s := range p {
			s.layoutCheck = check
		}
	}
	return p
}

// OnReplaced has f called whenever a connection led to a server that takes no writes, and was left. It is for who has just made the
// partitions.
func (p Partitions) OnReplaced(f func()) {
	for _, s := range p {
		s.onReplaced = f
	}
}

// layout is that of the partitions.
func (p Partitions) layout() Layout {
	if c := p[0].layoutCheck; c != nil {
		return c.own
	}
	return Layout{Partitions: len(p)}
}

// Count is how many partitions jobs are pushed to.
func (p Partitions) Count() int { return p.layout().Partitions }

// Of is the partition that the job of that ID belongs to.
func (p Partitions) Of(id string) *Store { return p[p.Place(id)] }

// Place is where among the partitions that one is.
func (p Partitions) Place(id string) int { return PartitionOf(id, p.layout().Partitions) }

// Growing reports whether jobs may be left in the partitions of a layout before.
func (p Partitions) Growing() bool { return p.layout().Before > 0 }

// IsBefore reports whether the partition at that place is one of the layout before only.
func (p Partitions) IsBefore(place int) bool { return place >= p.layout().Partitions }

// Before is the partition that the job of that ID belonged to in the layout before, nil if that is the same.
func (p Partitions) Before(id string) *Store {
	l := p.layout()
	if l.Before == 0 {
		return nil
	}
	if s := p[l.beforeAt(PartitionOf(id, l.Before))]; s != p.Of(id) {
		return s
	}
	return nil
}

// Nodes are the first partitions of each node.
func (p Partitions) Nodes() Partitions {
	var first Partitions
	seen := map[any]bool{}
	for _, s := range p {
		if node := s.Node(); !seen[node] {
			seen[node] = true
			first = append(first, s)
		}
	}
	return first
}

// KnownTopics are all that one of the partitions knows.
func (p Partitions) KnownTopics(ctx context.Context) ([]string, error) {
	parts := make([][]string, len(p))
	for i, s := range p {
		var err error
		if parts[i], _, err = s.KnownTopics(ctx, AllTopics, ""); err != nil {
			return nil, p.named(i, err)
		}
	}
	return JoinNames(parts, AllTopics), nil
}

// Stats is Store.Stats of all partitions. Its Time is that of the first one: the numbers of the others are a little younger.
func (p Partitions) Stats(ctx context.Context, topics []string) (all Stats, err error) {
	for i, s := range p {
		part, err := s.Stats(ctx, topics, false)
		switch {
		case err != nil:
			return Stats{}, p.named(i, err)
		case i == 0:
			all = part
		default:
			all.Add(part)
		}
	}
	return all, nil
}

// named says which partition an error is of, where there are several.
func (p Partitions) named(i int, err error) error {
	if len(p) > 1 {
		return fmt.Errorf("partition %d: %w", i, err)
	}
	return err
}

// Add adds another partition's numbers of the same topics.
func (s *Stats) Add(part Stats) {
	s.Time = cmp.Or(s.Time, part.Time)
	s.Pool += part.Pool
	s.Waiting += part.Waiting
	s.Overdue = Longer(s.Overdue, part.Overdue)
	for i, t := range part.Topics {
		sum := &s.Topics[i]
		sum.Ready, sum.Reserved, sum.Dead = Plus(sum.Ready, t.Ready), Plus(sum.Reserved, t.Reserved), Plus(sum.Dead, t.Dead)
		sum.Overdue, sum.AtLeast = Longer(sum.Overdue, t.Overdue), max(sum.AtLeast, t.AtLeast)
		sum.Held, sum.Slots = sum.Held+t.Held, sum.Slots+t.Slots
		if sum.HeldUntil.IsZero() || !t.HeldUntil.IsZero() && t.HeldUntil.Before(sum.HeldUntil) {
			sum.HeldUntil = t.HeldUntil
		}
		if sum.Limit == (Limit{}) {
			sum.Limit = t.Limit
		}
	}
}

// Plus adds numbers. -1 is one that is not known; then neither is the sum.
func Plus(a, b int) int {
	if a < 0 || b < 0 {
		return -1
	}
	return a + b
}

// Longer is the longer of both. -1 is one that is not known; then neither is the result.
func Longer(a, b time.Duration) time.Duration {
	if a < 0 || b < 0 {
		return -1
	}
	return max(a, b)
}
