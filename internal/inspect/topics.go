package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
)

// TopicQuery selects topics.
type TopicQuery struct {
	// Contains is a text that their names contain, byte for byte; empty selects all.
	Contains string
	// After is the name after which the page begins, and First how many of the selected topics are skipped.
	After string
	First int
	// Limit is the most topics of a page, up to MaxPage; 0 means 50.
	Limit int
}

// TopicPage is a page of topics, sorted by name.
type TopicPage struct {
	// Counts has the topics.
	Counts
	// Matched is how many of the examined topics contain the text. If there are more than maxNames,
	// those used last were examined.
	Matched, Looked int
}

// maxNames is the most names of topics that are examined.
const maxNames = 100000

// Topics reads a page of topics. It costs Redis about 0.3 µs for each known topic, and a few
// microseconds for each on the page.
func (o *Inspector) Topics(ctx context.Context, q TopicQuery) (TopicPage, error) {
	page, err := o.topics(ctx, q)
	if err != nil {
		return TopicPage{}, fmt.Errorf("list topics: %w", err)
	}
	return page, nil
}

func (o *Inspector) topics(ctx context.Context, q TopicQuery) (TopicPage, error) {
	switch {
	case q.Limit < 0 || q.Limit > MaxPage:
		return TopicPage{}, fmt.Errorf("limit %d is not from 0 to %d", q.Limit, MaxPage)
	case q.First < 0:
		return TopicPage{}, fmt.Errorf("first %d is below 0", q.First)
	}
	failed := o.none()
	known, err := o.known(ctx, failed, maxNames, func(ctx context.Context, s *store.Store) ([]string, int, error) {
		return s.KnownTopics(ctx, maxNames, q.Contains)
	})
	if err != nil {
		return TopicPage{}, err
	}
	names := slices.Sorted(slices.Values(known.names))
	matched := len(names)
	if q.After != "" {
		at, found := slices.BinarySearch(names, q.After)
		if found {
			at++
		}
		names = names[at:]
	}
	names = names[min(q.First, len(names)):]
	names = names[:min(cmp.Or(q.Limit, 50), len(names))]
	counts, err := o.countsOf(ctx, failed, names, known)
	looked := known.all
	if counts.Known = known.all; known.isCut() {
		looked = min(looked, maxNames)
	}
	return TopicPage{counts, matched, looked}, err
}

// Topic reads the numbers of one topic, and whether it is known. An unknown topic has no jobs
// that are ready or reserved, and no dead letters.
func (o *Inspector) Topic(ctx context.Context, topic string) (counts Counts, known bool, err error) {
	if counts, err = o.CountsOf(ctx, topic); err != nil {
		return Counts{}, false, err
	}
	if counts.Topics[0] != (TopicCounts{Topic: topic}) {
		return counts, true, nil
	}
	failed := o.none()
	for i, p := range counts.Partitions {
		failed[i] = p.Err
	}
	knows, _ := gather(ctx, o, failed, func(ctx context.Context, _ int, s *store.Store) (bool, error) { return s.IsKnown(ctx, topic) })
	known = slices.Contains(knows, true)
	if err := failed.any(); err != nil && !known {
		return Counts{}, false, fmt.Errorf("topic %s: %w", store.Quote(topic), err)
	}
	return counts, known, nil
}

// DeadTopics reads the topics with dead letters, up to MostTopics of each partition, those whose oldest
// letter died last. Known is how many there are. A topic's other numbers cover only the partitions that have dead letters of it, since only
// these are asked.
func (o *Inspector) DeadTopics(ctx context.Context) (Counts, error) {
	failed := o.none()
	known, err := o.known(ctx, failed, MostTopics, func(ctx context.Context, s *store.Store) ([]string, int, error) {
		return s.DeadTopics(ctx, MostTopics)
	})
	if err != nil {
		return Counts{}, fmt.Errorf("list topics with dead letters: %w", err)
	}
	counts, err := o.countsOf(ctx, failed, known.names, known)
	counts.Known = known.all
	return counts, err
}

// known are the topics that the partitions know.
type known struct {
	names []string   // each once; those that were used last come last
	all   int        // how many are known in all; at least, where several partitions' names were not all read
	parts [][]string // by partition; nil if not read
	cut   []bool     // the partition knows others
}

// known reads the names from the partitions that have not failed yet, up to that many from each.
func (o *Inspector) known(ctx context.Context, failed failures, most int, read func(context.Context, *store.Store) (names []string, all int, err error)) (known, error) {
	k, all := known{cut: make([]bool, len(failed))}, make([]int, len(failed))
	parts, err := gather(ctx, o, failed, func(ctx context.Context, i int, s *store.Store) (names []string, err error) {
		names, all[i], err = read(ctx, s)
		k.cut[i] = all[i] > most
		return names, err
	})
	if err != nil {
		return known{}, err
	}
	k.parts, k.names = parts, fleet.JoinNames(parts)
	k.all = max(slices.Max(all), len(k.names))
	return k, nil
}

func (k known) isCut() bool { return slices.Contains(k.cut, true) }

// of returns, for each partition, those of the topics that it may have.
func (k known) of(topics []string, partitions int) [][]string {
	lists := make([][]string, partitions)
	meant := map[string]bool{}
	for i := range lists {
		switch {
		case k.parts == nil || k.cut[i]:
			lists[i] = topics
		case len(topics) == len(k.names):
			lists[i] = k.parts[i]
		default:
			if len(meant) == 0 {
				for _, topic := range topics {
					meant[topic] = true
				}
			}
			for _, name := range k.parts[i] {
				if meant[name] {
					lists[i] = append(lists[i], name)
				}
			}
		}
	}
	return lists
}
