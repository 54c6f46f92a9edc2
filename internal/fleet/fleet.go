// Package fleet makes the partitions of a prefix look like one: it routes jobs by ID, fans calls out and merges their results, and refuses programs
// with another number of partitions.
package fleet

import (
	"context"
	"fmt"

	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
)

// Fleet is all partitions, by number.
type Fleet struct {
	Stores []*store.Store
	Layout Layout

	keeper *store.Store // partition 0 of several, without an admission of its own
	single *store.Store // the only partition of one, likewise
}

// MaxPartitions is the most partitions.
const MaxPartitions = 1024

// Open returns the Fleet for the jobs in that Redis. A single partition has the prefix itself, as in the original;
// with several, each adds its number in braces, as in "delayer:{3}:". Before their first call the partitions check that other programs
// use the same layout, and fail with a LayoutError if not.
func (l Layout) Open(r redisconn.Redis, prefix string) *Fleet {
	l.Partitions = max(l.Partitions, 1)
	source, keys := redisconn.NewSource(r), store.KeysOf(prefix)
	f := &Fleet{Layout: l, keeper: store.At(source, keys.Partition(0)), single: store.At(source, keys)}
	admission := store.NewAdmission(f.admit)
	for i := range l.Partitions {
		k := keys
		if l.Partitions > 1 {
			k = keys.Partition(i)
		}
		s := store.At(source, k)
		s.AdmittedBy(admission)
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

// Locate finds out on which nodes the partitions are, unless that is known. It fails if no node of a cluster answers.
func (f *Fleet) Locate(ctx context.Context) error {
	_, err := f.Stores[0].Addr(ctx)
	return err
}

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
