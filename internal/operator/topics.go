package operator

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/mix-basic/delayer/internal/store"
)

// What topics can be sorted by. Numbers sort the largest first.
const (
	ByName     = "name"
	ByReady    = "ready"
	ByReserved = "reserved"
	ByDead     = "dead"
	ByOverdue  = "overdue"
)

// TopicQuery says which topics to look at.
type TopicQuery struct {
	// Contains is text that their names contain, byte for byte; empty for any.
	Contains string
	// Sort is ByName and the like; empty means ByName.
	Sort string
	// After is the name behind which they begin, First how many of the others are left out.
	After string
	First int
	// Limit is how many there are at most, up to MaxPage; 0 means 50.
	Limit int
}

// TopicPage is some topics, in order.
type TopicPage struct {
	// Counts has them as its Topics, in the order that was asked for.
	Counts
	// Matched is how many topics contain the text, Looked at how many names was looked for it.
	Matched, Looked int
	// Partial reports whether some topics were not looked at, since there are so many: only
	// maxNames were, those that were used last, or, unless they are sorted by name, MostTopics.
	Partial bool
}

// maxNames is how many names of topics are looked at.
const maxNames = 100000

// Topics reads a page of topics. It costs Redis about 0.3 µs for each topic that is known, and some
// microseconds for each on the page; unless they are sorted by name, for each that contains the text.
func (o *Operator) Topics(ctx context.Context, q TopicQuery) (TopicPage, error) {
	page, err := o.topics(ctx, q)
	if err != nil {
		return TopicPage{}, fmt.Errorf("topics: %w", err)
	}
	return page, nil
}

func (o *Operator) topics(ctx context.Context, q TopicQuery) (TopicPage, error) {
	sort := cmp.Or(q.Sort, ByName)
	order, ok := topicOrders[sort]
	switch {
	case !ok:
		return TopicPage{}, fmt.Errorf("sort %.200q is not %s, %s, %s, %s or %s", q.Sort, ByName, ByReady, ByReserved, ByDead, ByOverdue)
	case q.Limit < 0 || q.Limit > MaxPage:
		return TopicPage{}, fmt.Errorf("limit %d is not from 0 to %d", q.Limit, MaxPage)
	case q.First < 0:
		return TopicPage{}, fmt.Errorf("first %d is below 0", q.First)
	}
	names, known, err := o.known(ctx, maxNames, q.Contains)
	if err != nil {
		return TopicPage{}, err
	}
	matched, partial := len(names), known > maxNames
	if sort != ByName {
		partial = partial || len(names) > MostTopics
		names = names[max(len(names)-MostTopics, 0):]
	}
	slices.Sort(names)
	if q.After != "" {
		at, found := slices.BinarySearch(names, q.After)
		if found {
			at++
		}
		names = names[at:]
	}
	limit := cmp.Or(q.Limit, 50)
	if sort == ByName {
		names = part(names, q.First, limit)
	}
	counts, err := o.CountsOf(ctx, names...)
	if err != nil {
		return TopicPage{}, err
	}
	if sort != ByName {
		slices.SortStableFunc(counts.Topics, order)
		counts.Topics = part(counts.Topics, q.First, limit)
	}
	counts.Known = known
	return TopicPage{counts, matched, min(known, maxNames), partial}, nil
}

// topicOrders compare topics, of which those come in that are equal by name.
var topicOrders = map[string]func(a, b TopicCounts) int{
	ByName:     nil,
	ByReady:    func(a, b TopicCounts) int { return cmp.Compare(b.Ready, a.Ready) },
	ByReserved: func(a, b TopicCounts) int { return cmp.Compare(b.Reserved, a.Reserved) },
	ByDead:     func(a, b TopicCounts) int { return cmp.Compare(b.Dead, a.Dead) },
	ByOverdue:  func(a, b TopicCounts) int { return cmp.Compare(b.AtLeast, a.AtLeast) },
}

// part is so many of the list, but for the first ones.
func part[T any](list []T, first, limit int) []T {
	list = list[min(first, len(list)):]
	return list[:min(limit, len(list))]
}

// Topic reads the numbers of one topic, and whether it is known; one that is not has neither jobs
// that are ready or reserved nor dead letters.
func (o *Operator) Topic(ctx context.Context, topic string) (counts Counts, known bool, err error) {
	if counts, err = o.CountsOf(ctx, topic); err != nil {
		return Counts{}, false, err
	}
	known = counts.Topics[0] != TopicCounts{Topic: topic}
	for _, partition := range o.partitions {
		if known {
			break
		}
		if known, err = partition.IsKnown(ctx, topic); err != nil {
			return Counts{}, false, fmt.Errorf("topic %s: %w", store.Quote(topic), err)
		}
	}
	return counts, known, nil
}

// DeadTopics reads the topics that have dead letters, MostTopics of them at most, those whose oldest
// died last. Known is how many there are.
func (o *Operator) DeadTopics(ctx context.Context) (Counts, error) {
	topics, all, err := o.names(func(s *store.Store) ([]string, int, error) { return s.DeadTopics(ctx, MostTopics) }, MostTopics)
	if err != nil {
		return Counts{}, fmt.Errorf("dead topics: %w", err)
	}
	counts, err := o.CountsOf(ctx, topics...)
	counts.Known = all
	return counts, err
}

// known are the names of the topics that were used last.
func (o *Operator) known(ctx context.Context, most int, containing string) (names []string, all int, err error) {
	return o.names(func(s *store.Store) ([]string, int, error) { return s.KnownTopics(ctx, most, containing) }, most)
}

// names are those of topics in all partitions, most of them at most, each once; all is how many there
// are, about if there are several partitions.
func (o *Operator) names(of func(*store.Store) (names []string, all int, err error), most int) (names []string, all int, err error) {
	for _, partition := range o.partitions {
		part, known, err := of(partition)
		if err != nil {
			return nil, 0, err
		}
		names, all = append(names, part...), max(all, known)
	}
	if len(o.partitions) > 1 {
		slices.Sort(names)
		names = slices.Compact(names)
		names = names[max(len(names)-most, 0):]
		all = max(all, len(names))
	}
	return names, all, nil
}
