package fleet

import (
	"context"
	"fmt"

	"github.com/mix-basic/delayer/internal/store"
)

// share is the partition's share of a limit. The shares of all partitions add up to the limit, unless it allows fewer jobs
// than there are partitions: each has at least one.
func (f *Fleet) share(place int, limit store.Limit) store.Share {
	of := len(f.Stores)
	switch {
	case f.excludes(place, limit):
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
func (f *Fleet) CheckShares(limit store.Limit) error {
	if n := len(f.Stores); limit.Tag == "" && limit.Concurrency > 0 && limit.Concurrency < n {
		return fmt.Errorf("%d is less than the %d partitions, each of which has its share: want %d or more, or a tag that all IDs of the topic contain", limit.Concurrency, n, n)
	}
	return nil
}

// excludes reports whether the limit lets no job be reserved in that partition, because the limit has a tag and all jobs with
// that tag belong elsewhere.
func (f *Fleet) excludes(place int, limit store.Limit) bool {
	return limit.Tag != "" && place != store.PartitionOf("{"+limit.Tag+"}", len(f.Stores))
}

// SetLimit sets or removes the topic's limit. When it has returned, jobs that are already reserved count.
func (f *Fleet) SetLimit(ctx context.Context, topic string, l store.Limit) error {
	return f.everywhere("set", func(i int, s *store.Store) error { return s.SetLimit(ctx, topic, l, f.share(i, l)) })
}

// Limit returns the topic's limit.
func (f *Fleet) Limit(ctx context.Context, topic string) (store.Limit, error) {
	return f.Stores[0].Limit(ctx, topic)
}

// Untagged returns the topic's limit, and how many ready jobs nobody can reserve because of it: see TopicCounts. It needs no more permissions than a server has.
func (f *Fleet) Untagged(ctx context.Context, topic string) (l store.Limit, jobs int, err error) {
	if l, err = f.Limit(ctx, topic); err != nil {
		return l, 0, err
	}
	for i, s := range f.Stores {
		for _, queue := range []string{s.Keys().ReadyQueue(topic), s.Keys().PausedQueue(topic)} {
			if !f.excludes(i, l) {
				continue
			}
			n, err := s.Length(ctx, queue)
			if err != nil {
				return l, jobs, f.Named(i, err)
			}
			jobs += n
		}
	}
	return l, jobs, nil
}
