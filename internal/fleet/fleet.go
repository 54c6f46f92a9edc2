// Package fleet makes the partitions of a prefix look like one: it routes jobs by ID, fans calls out and merges their results, and refuses programs
// with another number of partitions.
package fleet

import (
	"context"
	"fmt"

	"github.com/mix-basic/delayer/internal/store"
)

// Fleet is all partitions, by number.
type Fleet struct {
	Stores []*store.Store
	Prefix string

	keeper *store.Store // partition 0 of several, without an admission of its own
	single *store.Store // the only partition of one, likewise
}

// Of returns the partition to which the job with that ID belongs.
func (f *Fleet) Of(id string) *store.Store {
	if len(f.Stores) == 1 {
		return f.Stores[0]
	}
	return f.Stores[store.PartitionOf(id, len(f.Stores))]
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
