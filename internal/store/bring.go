package store

import (
	"context"
	"fmt"
)

// Bring moves what there is of these IDs, in the partitions of the layout before, to those that they belong to now, so that
// whatever is done with them next can be done there. Reserved jobs stay, unless all are meant (see SetAside), and are told.
func (p Partitions) Bring(ctx context.Context, ids []string, all bool) (reserved map[string]bool, err error) {
	if !p.Growing() {
		return nil, nil
	}
	var stores []*Store
	elsewhere := map[*Store][]string{}
	for _, id := range ids {
		if before := p.Before(id); before != nil {
			if elsewhere[before] == nil {
				stores = append(stores, before)
			}
			elsewhere[before] = append(elsewhere[before], id)
		}
	}
	reserved = map[string]bool{}
	for _, before := range stores {
		if err := p.bring(ctx, before, elsewhere[before], all, reserved); err != nil {
			return nil, fmt.Errorf("from a partition of before: %w", err)
		}
	}
	return reserved, nil
}

func (p Partitions) bring(ctx context.Context, before *Store, ids []string, all bool, reserved map[string]bool) error {
	for len(ids) > 0 {
		batch, err := before.SetAside(ids[:min(len(ids), migrateStep)], all).Do(ctx)
		if err == nil {
			_, err = p.finish(ctx, before, batch)
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

// finish has a batch that is set aside adopted by the partitions that its jobs belong to, and lets it go.
func (p Partitions) finish(ctx context.Context, from *Store, batch Aside) (sum Adopted, err error) {
	if batch.Serial == 0 {
		return Adopted{}, nil
	}
	var stores []*Store
	jobs := map[*Store][]AsideJob{}
	for _, j := range batch.Jobs {
		to := p.Of(j.id)
		if jobs[to] == nil {
			stores = append(stores, to)
		}
		jobs[to] = append(jobs[to], j)
	}
	last := int64(0)
	call := func(i int) *Call[Adopted] { return stores[i].Adopt(from, batch.Serial, jobs[stores[i]]) }
	InTurn(ctx, stores, len(p), call, func(_ int, a Adopted, failed error) bool {
		sum.add(a)
		last = max(last, a.last)
		if failed != nil && err == nil {
			err = failed
		}
		return true
	})
	if err != nil {
		return sum, err
	}
	again, err := from.LetGo(batch.Serial, last).Do(ctx)
	if again {
		var more Adopted
		if batch, err = from.SetAside(nil, false).Do(ctx); err == nil {
			more, err = p.finish(ctx, from, batch)
		}
		sum.add(more)
	}
	return sum, err
}

func (a *Adopted) add(b Adopted) {
	a.Stored, a.Superseded = a.Stored+b.Stored, a.Superseded+b.Superseded
}
