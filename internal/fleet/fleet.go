// Package fleet is the partitions of a prefix as one: it routes a job by its ID, fans calls out and merges what comes back, refuses programs that
// have another layout, and knows everything about a previous layout, from which jobs migrate.
package fleet

import (
	"context"
	"fmt"

	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
)

// Fleet is all partitions: those of the layout, by number, and behind them the old ones that are none of these.
type Fleet struct {
	Stores []*store.Store
	Layout Layout
	check  *layoutCheck

	admission *store.Admission
}

// MaxPartitions is how many partitions there are at most.
const MaxPartitions = 1024

// Open makes the Fleet of the jobs in that Redis. A single partition has the prefix, as the original
// does; of several, each has its number in braces behind it, "delayer:{3}:". Before their first call the partitions ask Redis whether others
// have the same layout, and refuse to work with a LayoutError if they don't.
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

// Of is the partition that the job of that ID belongs to.
func (f *Fleet) Of(id string) *store.Store {
	if len(f.Stores) == 1 {
		return f.Stores[0]
	}
	return f.Stores[store.PartitionOf(id, f.Layout.Partitions)]
}

// Held is the partition in which a reserved job is held: the one of these that has at's keys. Where at is not known, nil, or none of these,
// that is the one that the job belongs to.
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

// OldOf is the old partition to which the job of that ID belonged in the previous layout; nil if there is no previous layout, or that is the one
// to which it belongs now.
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

// IsOld reports whether the partition at that place is one of the previous layout only.
func (f *Fleet) IsOld(place int) bool { return place >= f.Layout.Partitions }

// Locate finds out on which nodes the partitions are, if nobody has asked that yet. It fails if no node of a cluster answers.
func (f *Fleet) Locate(ctx context.Context) error { return f.Stores[0].Locate(ctx) }

// named says which partition an error is of, where there are several.
func (f *Fleet) named(i int, err error) error {
	if len(f.Stores) > 1 {
		return fmt.Errorf("partition %d: %w", i, err)
	}
	return err
}
