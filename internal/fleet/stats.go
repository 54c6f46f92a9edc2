package fleet

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// Stats returns Store.Stats summed over all partitions, for all topics that any of them knows, sorted by name. Each is asked only for topics that it knows.
// Time comes from the first partition; the others' numbers are slightly newer.
func (f *Fleet) Stats(ctx context.Context) (store.Stats, error) {
	names, parts := make([][]string, len(f.Stores)), make([]store.Stats, len(f.Stores))
	failed := f.Each(func(i int, s *store.Store) (err error) {
		if names[i], _, err = s.KnownTopics(ctx, store.AllTopics, ""); err == nil {
			parts[i], err = f.StatsOf(ctx, i, names[i], false)
		}
		return err
	})
	if err := cmp.Or(failed...); err != nil {
		return store.Stats{}, err
	}
	sum := NewSum(slices.Sorted(slices.Values(JoinNames(names))))
	for _, part := range parts {
		sum.Add(part)
	}
	return sum.Stats, nil
}

// StatsOf returns Store.Stats of the partition at that place. If a topic's limit excludes the partition, its ready jobs count as Untagged and none as Held.
func (f *Fleet) StatsOf(ctx context.Context, place int, topics []string, late bool) (store.Stats, error) {
	all, err := f.Stores[place].Stats(ctx, topics, late)
	for i := range all.Topics {
		if t := &all.Topics[i]; f.excludes(place, t.Limit) {
			t.Untagged, t.Throttled = max(t.Ready, 0), 0
		}
	}
	return all, err
}

// Sum adds up the Stats of partitions.
type Sum struct {
	store.Stats
	places map[string]int
}

// NewSum returns an empty Sum for these topics.
func NewSum(topics []string) *Sum {
	s := &Sum{store.Stats{Topics: make([]store.TopicCounts, len(topics))}, make(map[string]int, len(topics))}
	for i, topic := range topics {
		s.Topics[i], s.places[topic] = store.TopicCounts{Topic: topic, AtLeast: -1}, i
	}
	return s
}

// Add adds a partition's numbers of the topics, in any order. Other topics do not count.
func (s *Sum) Add(part store.Stats) {
	s.Time = cmp.Or(s.Time, part.Time)
	s.Pool += part.Pool
	s.Waiting += part.Waiting
	s.Overdue = Longer(s.Overdue, part.Overdue)
	for _, t := range part.Topics {
		if i, counts := s.places[t.Topic]; counts {
			addCounts(&s.Topics[i], t)
		}
	}
}

func addCounts(t *store.TopicCounts, part store.TopicCounts) {
	t.Ready, t.Reserved, t.Dead = Plus(t.Ready, part.Ready), Plus(t.Reserved, part.Reserved), Plus(t.Dead, part.Dead)
	t.Overdue, t.AtLeast = Longer(t.Overdue, part.Overdue), max(t.AtLeast, part.AtLeast)
	t.Throttled, t.Slots, t.Untagged = t.Throttled+part.Throttled, t.Slots+part.Slots, t.Untagged+part.Untagged
	if t.ThrottledUntil.IsZero() || !part.ThrottledUntil.IsZero() && part.ThrottledUntil.Before(t.ThrottledUntil) {
		t.ThrottledUntil = part.ThrottledUntil
	}
	if t.Limit == (store.Limit{}) {
		t.Limit = part.Limit
	}
}

// Plus adds numbers. -1 means unknown, and makes the sum unknown.
func Plus(a, b int) int {
	if a < 0 || b < 0 {
		return -1
	}
	return a + b
}

// Longer returns the longer duration. -1 means unknown, and makes the result unknown.
func Longer(a, b time.Duration) time.Duration {
	if a < 0 || b < 0 {
		return -1
	}
	return max(a, b)
}

// JoinNames merges the partitions' topic names, each once. Names that are among the last of a partition come last.
func JoinNames(parts [][]string) []string {
	if len(parts) == 1 {
		return parts[0]
	}
	behind := map[string]int{} // how many names of a partition are behind it
	for _, part := range parts {
		for i, name := range part {
			if n, met := behind[name]; !met || len(part)-i < n {
				behind[name] = len(part) - i
			}
		}
	}
	return slices.SortedFunc(maps.Keys(behind), func(a, b string) int {
		return cmp.Or(cmp.Compare(behind[b], behind[a]), strings.Compare(a, b))
	})
}
