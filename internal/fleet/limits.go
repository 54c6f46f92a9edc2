package fleet

import (
	"cmp"
	"context"
	"fmt"

	"github.com/mix-basic/delayer/internal/store"
)

// share is the partition's share of a limit. The shares of a layout's partitions add up to the limit, unless it allows fewer jobs
// than there are partitions: each has at least one.
func (l Layout) share(place int, limit store.Limit) store.Share {
	of := max(l.Partitions, 1)
	switch {
	case limit.Tag != "" && place != store.PartitionOf("{"+limit.Tag+"}", of):
		return store.Share{}
	case limit.Tag != "":
		of = 1
	}
	s := store.Share{Concurrency: -1}
	if limit.Burst > 0 {
		s.Burst = shareOf(limit.Burst, place, of)
	}
	if limit.Concurrency > 0 {
		s.Concurrency = shareOf(limit.Concurrency, place, of)
	}
	if limit.Rate > 0 {
		s.Interval = 1e6 * float64(of) / limit.Rate
	}
	return s
}

// shareOf is the part of all that the partition at that place gets: at least one.
func shareOf(all, place, of int) int {
	n := all / of
	if place < all%of {
		n++
	}
	return max(n, 1)
}

// CheckShares refuses a limit of so few jobs at a time that some partitions would have no share.
func (l Layout) CheckShares(limit store.Limit) error {
	if n := l.Partitions; limit.Tag == "" && limit.Concurrency > 0 && limit.Concurrency < n {
		return fmt.Errorf("%d is less than the %d partitions, each of which has its share: want %d or more, or a tag that all IDs of the topic contain", limit.Concurrency, n, n)
	}
	return nil
}

// excludes reports whether the limit lets no job be reserved in that partition, because the limit has a tag and all jobs with
// that tag belong elsewhere.
func (l Layout) excludes(place int, limit store.Limit) bool {
	return limit.Tag != "" && place != store.PartitionOf("{"+limit.Tag+"}", l.Partitions)
}

// SetLimit sets or removes the topic's limit. When it has returned, jobs that are already reserved count.
func (f *Fleet) SetLimit(ctx context.Context, topic string, l store.Limit) error {
	return f.each(func(i int, s *store.Store) error { return s.SetLimit(ctx, topic, l, f.Layout.share(i, l)) })
}

// Limit returns the topic's limit.
func (f *Fleet) Limit(ctx context.Context, topic string) (store.Limit, error) {
	return f.Stores[0].Limit(ctx, topic)
}

// Untagged returns the topic's limit, and how many ready jobs nobody can reserve because of it: see TopicCounts.
func (f *Fleet) Untagged(ctx context.Context, topic string) (l store.Limit, jobs int, err error) {
	if l, err = f.Limit(ctx, topic); err != nil {
		return l, 0, err
	}
	err = f.each(func(i int, s *store.Store) error {
		if !f.Layout.excludes(i, l) {
			return nil
		}
		ready, err := s.Length(ctx, s.Keys().ReadyQueue(topic))
		parked, wrong := s.Length(ctx, s.Keys().PausedQueue(topic))
		jobs += ready + parked
		return cmp.Or(err, wrong)
	})
	return l, jobs, err
}
