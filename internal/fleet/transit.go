package fleet

import (
	"context"
	"fmt"
	"slices"

	"github.com/mix-basic/delayer/internal/store"
)

// MigrateJobs moves jobs with these IDs from old partitions to where they belong, so that
// the next call can be made there. Reserved jobs stay and are returned, unless all are to move (see Store.PutInTransit).
func (f *Fleet) MigrateJobs(ctx context.Context, ids []string, all bool) (reserved map[string]bool, err error) {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return f.OldOf(id) == nil })
	reserved = map[string]bool{}
	for _, old := range Divide(ids, func(i int) *store.Store { return f.OldOf(ids[i]) }) {
		if err := f.migrateFrom(ctx, old.Store, old.Items, all, reserved); err != nil {
			return nil, fmt.Errorf("from an old partition: %w", err)
		}
	}
	return reserved, nil
}

func (f *Fleet) migrateFrom(ctx context.Context, old *store.Store, ids []string, all bool, reserved map[string]bool) error {
	for len(ids) > 0 {
		batch, err := old.PutInTransit(ids[:min(len(ids), migrateStep)], all).Do(ctx)
		if err == nil {
			_, err = f.finish(ctx, old, batch)
		}
		if err != nil {
			return err
		}
		if !batch.WasThere {
			for _, place := range batch.Reserved {
				reserved[ids[place]] = true
			}
			ids = ids[batch.LookedAt:]
		}
	}
	return nil
}

// finish makes the jobs' new partitions adopt a batch in transit, and then ends the transit.
func (f *Fleet) finish(ctx context.Context, from *store.Store, batch store.Transit) (sum store.Adopted, err error) {
	if batch.Serial == 0 {
		return store.Adopted{}, nil
	}
	parts := Divide(batch.Jobs, func(i int) *store.Store { return f.Of(batch.Jobs[i].ID) })
	last := int64(0)
	call := func(i int) *store.Call[store.Adopted] {
		return parts[i].Store.Adopt(from, batch.Serial, parts[i].Items)
	}
	store.InTurn(ctx, StoresOf(parts), len(f.Stores), call, func(_ int, a store.Adopted, failed error) bool {
		add(&sum, a)
		last = max(last, a.Last)
		if failed != nil && err == nil {
			err = failed
		}
		return true
	})
	if err != nil {
		return sum, err
	}
	again, err := from.EndTransit(batch.Serial, last).Do(ctx)
	if again {
		var more store.Adopted
		if batch, err = from.PutInTransit(nil, false).Do(ctx); err == nil {
			more, err = f.finish(ctx, from, batch)
		}
		add(&sum, more)
	}
	return sum, err
}

func add(a *store.Adopted, b store.Adopted) {
	a.Stored, a.Superseded = a.Stored+b.Stored, a.Superseded+b.Superseded
}
