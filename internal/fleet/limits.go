package fleet

import (
	"context"

	"github.com/mix-basic/delayer/internal/store"
)

// share is what the partition at that place has of a limit. The shares of a layout's partitions add up to the limit, unless it has fewer jobs
// reserved at a time, or begin at once, than there are partitions: each has one at least. An old partition has the share that it had in the previous
// layout, as its jobs may stay for as long as nobody migrates; but none of a limit that is exact.
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
	s := store.Share{Concurrency: -1, Burst: shareOf(limit.Burst, place, of)}
	if limit.Concurrency > 0 {
		s.Concurrency = shareOf(limit.Concurrency, place, of)
	}
	if limit.Rate > 0 {
		s.Interval = 1e6 * float64(of) / limit.Rate
	}
	return s
}

// shareOf is how many of all the partition at that place has, of so many: one at least.
func shareOf(all, place, of int) int {
	n := all / of
	if place < all%of {
		n++
	}
	return max(n, 1)
}

// excludes reports whether no job of a topic with that limit can be reserved in the partition at that place, nor can migrating it help: it has a
// tag, and all jobs with that belong elsewhere. While there is a previous layout those may still be where they belonged in that.
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

// SetLimit limits the topic's jobs, or ends that. Those that are reserved already are counted once it has returned.
func (f *Fleet) SetLimit(ctx context.Context, topic string, l store.Limit) error {
	for i, s := range f.Stores {
		if err := s.SetLimit(ctx, topic, l, f.Layout.share(i, l)); err != nil {
			return f.named(i, err)
		}
	}
	return nil
}

// Limit is what limits the topic's jobs.
func (f *Fleet) Limit(ctx context.Context, topic string) (store.Limit, error) {
	return f.Stores[0].Limit(ctx, topic)
}

// Untagged is what limits the topic's jobs, and how many ready jobs it keeps from everybody: see TopicCounts.
func (f *Fleet) Untagged(ctx context.Context, topic string) (l store.Limit, jobs int, err error) {
	l, err = f.Limit(ctx, topic)
	for i, s := range f.Stores {
		if !f.Layout.excludes(i, l) {
			continue
		}
		for _, queue := range []string{s.Keys().ReadyQueue(topic), s.Keys().PausedQueue(topic)} {
			n, err := s.Length(ctx, queue)
			if err != nil {
				return l, 0, f.named(i, err)
			}
			jobs += n
		}
	}
	return l, jobs, err
}

// CopyLimits gives partitions that have come to be since their shares of the limits there are. It is done again at no harm.
func (f *Fleet) CopyLimits(ctx context.Context) error {
	for place, from := range f.Stores {
		if !f.IsOld(place) && place != 0 {
			continue
		}
		limits, err := from.Limits(ctx)
		if err != nil {
			return f.named(place, err)
		}
		for topic, l := range limits {
			if err := f.copyLimit(ctx, topic, l); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyLimit gives all partitions their shares of the limit, unless they have them.
func (f *Fleet) copyLimit(ctx context.Context, topic string, l store.Limit) error {
	for i, s := range f.Stores {
		share := f.Layout.share(i, l)
		has, err := s.HasShare(ctx, topic, share)
		if err == nil && !has {
			err = s.SetLimit(ctx, topic, l, share)
		}
		if err != nil {
			return f.named(i, err)
		}
	}
	return nil
}
