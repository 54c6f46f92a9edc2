// Package fleet makes the partitions of a prefix look like one: it routes jobs by ID, fans calls out and merges their results, refuses programs
// with another layout, and knows everything about a previous layout, from which jobs migrate.
package fleet

import (
	"context"
	"fmt"

	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
)

// Fleet is all partitions: those of the layout, by number, then the old ones that are not among them.
type Fleet struct {
	Stores []*store.Store
	Layout Layout
	check  *layoutCheck

	admission *store.Admission
}

// MaxPartitions is the most partitions.
const MaxPartitions = 1024

// Open returns the Fleet for the jobs in that Redis. A single partition has the prefix itself, as in the original;
// with several, each adds its number in braces, as in "delayer:{3}:". Before their first call the partitions check that other programs
// use the same layout, and fail with a LayoutError if not.
func (l Layout) Open(r redisconn.Redis, prefix string) *Fleet {
	l.Partitions = max(l.Partitions, 1)
	router, keys := redisconn.NewRouter(r), store.KeysOf(prefix)
	f := &Fleet{Layout: l, check: newLayoutCheck(router, keys, l)}
	f.admission = store.NewAdmission(f.check.ask)
	for _, k := range l.keys(keys) {
		s := store.At(router, k)
		s.AdmittedBy(f.admission)
		f.Stores = append(f.Stores, s)
	}
	return f
}

// Of returns the partition to which the job with that ID belongs.
func (f *Fleet) Of(id string) *store.Store {
	if len(f.Stores) == 1 {
		return f.Stores[0]
	}
	return f.Stores[store.PartitionOf(id, f.Layout.Partitions)]
}

// Held returns the partition that has a reserved job's lease: the one with at's keys. If at is nil or not one of these,
// it is the one to which the job belongs.
func (f *Fleet) Held(id string, at *store.Store) *store.Store {
	if at != nil {
		for _, s := range f.Stores {
			if s.Keys() == at.Keys() {
				return s
			}
		}
	}
	return f.Of(id)
}

// OldOf returns the partition of the job in the previous layout; nil if there is no previous layout or if it is the same
// as now.
func (f *Fleet) OldOf(id string) *store.Store {
	l := f.Layout
	if l.Previous == 0 {
		return nil
	}
	if s := f.Stores[l.oldPlace(store.PartitionOf(id, l.Previous))]; s != f.Of(id) {
		return s
	}
	return nil
}

// IsOld reports whether the partition at that place belongs to the previous layout only.
func (f *Fleet) IsOld(place int) bool { return place >= f.Layout.Partitions }

// Locate finds out on which nodes the partitions are, unless that is known. It fails if no node of a cluster answers.
func (f *Fleet) Locate(ctx context.Context) error { return f.Stores[0].Locate(ctx) }

// each makes a call in one partition after the other, until an error.
func (f *Fleet) each(call func(i int, s *store.Store) error) error {
	for i, s := range f.Stores {
		if err := call(i, s); err != nil {
			return f.named(i, err)
		}
	}
	return nil
}

func (f *Fleet) named(i int, err error) error {
	if len(f.Stores) > 1 {
		return fmt.Errorf("partition %d: %w", i, err)
	}
	return err
}
