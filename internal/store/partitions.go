package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/redisconn"
)

// Partitions are Stores that have all the jobs together: those of the layout, and behind them those of the layout
// before that are none of it.
type Partitions []*Store

// MaxPartitions is how many there are at most.
const MaxPartitions = 1024

// Open makes Partitions of the jobs in that Redis. A single one has the prefix, as the original
// does. Of several, each has its number in braces behind it, "delayer:{3}:", so that all of its keys
// are in one slot of a Redis Cluster. Before their first call they ask Redis whether the layout is what others have, too,
// and refuse to work with a LayoutError if it isn't.
func (l Layout) Open(r redisconn.Redis, prefix string) Partitions {
	var p Partitions
	router := redisconn.NewRouter(r)
	for _, keys := range l.keys(Keys{prefix}) {
		p = append(p, newStore(router, keys))
	}
	check := newLayoutCheck(router, Keys{prefix}, l)
	for i, s := range p {
		s.layoutCheck, s.place = check, i
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
func (p Partitions) Of(id string) *Store {
	if len(p) == 1 {
		return p[0]
	}
	return p[p.Place(id)]
}

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

// Locate finds out on which nodes the partitions are, if nobody has asked that yet. It fails if no node of a cluster answers.
func (p Partitions) Locate(ctx context.Context) error { return p[0].router.Locate(ctx) }

// Nodes are the first partitions of each node, as far as that is known: see Locate.
func (p Partitions) Nodes() Partitions {
	var first Partitions
	for _, here := range ByNode(p, itself) {
		first = append(first, here[0])
	}
	return first
}

// Stats is Store.Stats of all partitions and of all topics that any of them knows, by name. Each is asked only for those that it knows. Its
// Time is that of the first one: the numbers of the others are a little younger.
func (p Partitions) Stats(ctx context.Context) (Stats, error) {
	names, parts := make([][]string, len(p)), make([]Stats, len(p))
	for i, s := range p {
		var err error
		if names[i], _, err = s.KnownTopics(ctx, AllTopics, ""); err == nil {
			parts[i], err = s.Stats(ctx, names[i], false)
		}
		if err != nil {
			return Stats{}, p.named(i, err)
		}
	}
	sum := NewSum(slices.Sorted(slices.Values(JoinNames(names))))
	for _, part := range parts {
		sum.Add(part)
	}
	return sum.Stats, nil
}

// named says which partition an error is of, where there are several.
func (p Partitions) named(i int, err error) error {
	if len(p) > 1 {
		return fmt.Errorf("partition %d: %w", i, err)
	}
	return err
}

// Sum are the Stats of partitions together.
type Sum struct {
	Stats
	places map[string]int
}

// NewSum begins one of these topics.
func NewSum(topics []string) *Sum {
	s := &Sum{Stats{Topics: make([]TopicCounts, len(topics))}, make(map[string]int, len(topics))}
	for i, topic := range topics {
		s.Topics[i], s.places[topic] = TopicCounts{Topic: topic, AtLeast: -1}, i
	}
	return s
}

// Add adds what a partition has of the topics, in any order. Other topics don't count.
func (s *Sum) Add(part Stats) {
	s.Time = cmp.Or(s.Time, part.Time)
	s.Pool += part.Pool
	s.Waiting += part.Waiting
	s.Overdue = Longer(s.Overdue, part.Overdue)
	for _, t := range part.Topics {
		if i, counts := s.places[t.Topic]; counts {
			s.Topics[i].add(t)
		}
	}
}

// add adds another partition's numbers of the topic.
func (t *TopicCounts) add(part TopicCounts) {
	t.Ready, t.Reserved, t.Dead = Plus(t.Ready, part.Ready), Plus(t.Reserved, part.Reserved), Plus(t.Dead, part.Dead)
	t.Overdue, t.AtLeast = Longer(t.Overdue, part.Overdue), max(t.AtLeast, part.AtLeast)
	t.Held, t.Slots, t.Untagged = t.Held+part.Held, t.Slots+part.Slots, t.Untagged+part.Untagged
	if t.HeldUntil.IsZero() || !part.HeldUntil.IsZero() && part.HeldUntil.Before(t.HeldUntil) {
		t.HeldUntil = part.HeldUntil
	}
	if t.Limit == (Limit{}) {
		t.Limit = part.Limit
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
