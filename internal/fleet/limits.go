package fleet

import (
	"cmp"
	"context"
	"maps"

	"github.com/mix-basic/delayer/internal/store"
)

// share is the partition's share of a limit. The shares of a layout's partitions add up to the limit, unless it allows fewer jobs
// than there are partitions: each has at least one. An old partition keeps its share of the previous
// layout, because its jobs may stay until they are migrated; but it has no share of an exact limit.
func (l Layout) share(place int, limit store.Limit) store.Share {
	of := max(l.Partitions, 1)
	switch {
	case place >= of && limit.Tag != "":
		return store.Share{}
	case place >= of:
		place, of = l.oldNumber(place), l.Previous
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

// excludes reports whether the limit lets no job be reserved in that partition, and migrating does not help: the limit has a
// tag, and all jobs with that tag belong elsewhere. While there is a previous layout, they may still be in their old partition.
func (l Layout) excludes(place int, limit store.Limit) bool {
	if limit.Tag == "" {
		return false
	}
	tag := "{" + limit.Tag + "}"
	if place >= l.Partitions || l.Previous > 0 && place == l.oldPlace(store.PartitionOf(tag, l.Previous)) {
		return false
	}
	return place != store.PartitionOf(tag, l.Partitions)
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

// CopyLimits gives new partitions their shares of existing limits. It can be repeated safely.
func (f *Fleet) CopyLimits(ctx context.Context) error {
	limits := map[string]store.Limit{}
	err := f.each(func(i int, s *store.Store) error {
		if !f.IsOld(i) && i != 0 {
			return nil
		}
		its, err := s.Limits(ctx)
		maps.Copy(limits, its)
		return err
	})
	for topic, l := range limits {
		if err != nil {
			break
		}
		err = f.each(func(i int, s *store.Store) error {
			share := f.Layout.share(i, l)
			has, err := s.HasShare(ctx, topic, share)
			if err == nil && !has {
				err = s.SetLimit(ctx, topic, l, share)
			}
			return err
		})
	}
	return err
}
