package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mix-basic/delayer/internal/store"
)

// Migrated is the progress of a migration.
type Migrated struct {
	store.Adopted
	Left     int // roughly how many jobs and dead letters are still to be checked; some may belong where they are
	Reserved int // jobs that stay for now because they are reserved
}

// migrateStep is how many IDs a migration reads and puts in transit at a time, which takes Redis about 1 ms.
const migrateStep = 50

// Migrate moves jobs and dead letters from the old partitions to where they belong, batch by batch, and reports its progress after
// each. It returns true when it has found nothing left to move. It can be stopped at any point and started again.
// It returns an error at the end for what cannot be moved. Reserved jobs stay for a later call.
func (f *Fleet) Migrate(ctx context.Context, tell func(Migrated)) (done bool, err error) {
	m := migration{Fleet: f, tell: tell}
	for _, from := range f.leaving() {
		n, err := from.Size(ctx)
		if err != nil {
			return false, err
		}
		m.sizes, m.Left = append(m.sizes, n), m.Left+n
	}
	for _, to := range f.Stores[:f.Layout.Partitions] {
		if err := checkAdopt(ctx, to); err != nil && !store.Temporary(err) {
			return false, err
		}
	}
	if err := f.CopyPauses(ctx); err != nil && !store.Temporary(err) { // before jobs become ready there
		return false, err
	}
	if err := f.CopyLimits(ctx); err != nil && !store.Temporary(err) {
		return false, err
	}
	for i, from := range f.leaving() {
		if err := m.move(ctx, from); err != nil {
			return false, err
		}
		m.Left = 0
		for _, n := range m.sizes[i+1:] {
			m.Left += n
		}
	}
	if m.found > 0 || m.broken != nil {
		return false, m.broken
	}
	return true, f.endOld(ctx)
}

// endOld ends pauses and limits in old partitions. If such partitions came back one day, nobody would expect them.
func (f *Fleet) endOld(ctx context.Context) error {
	for _, s := range f.Stores[f.Layout.Partitions:] {
		paused, err := s.Paused(ctx)
		if err != nil {
			return err
		}
		for _, one := range paused {
			for more := true; more; {
				resumed, err := s.Resume(one.Topic, 1).Do(ctx)
				if err != nil {
					return err
				}
				more = resumed.More
			}
		}
		limits, err := s.Limits(ctx)
		if err != nil {
			return err
		}
		for topic := range limits {
			if err := s.SetLimit(ctx, topic, store.Limit{}, store.Share{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// MigrationDone records in Redis that nothing is left in old partitions.
func (f *Fleet) MigrationDone(ctx context.Context) error {
	kept, err := f.check.keeper.Layout(store.EndPrevious, f.Layout.kept()).Do(ctx)
	if err == nil {
		f.check.copy(ctx, kept)
	}
	return err
}

// FinishTransits completes the transits of migrations that died.
func (f *Fleet) FinishTransits(ctx context.Context) error {
	var errs []error
	for _, from := range f.leaving() {
		_, _, err := f.finishTransit(ctx, from)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// checkAdopt fails if the partition cannot adopt jobs: they would stay in transit.
func checkAdopt(ctx context.Context, to *store.Store) error {
	if err := to.CheckAdopt(ctx); err != nil {
		return fmt.Errorf("no job can be moved to %s: %w", to.Keys().Prefix(), err)
	}
	return nil
}

// leaving returns the partitions of the previous layout that may have jobs which belong elsewhere.
func (f *Fleet) leaving() (all []*store.Store) {
	l := f.Layout
	for number := range l.Previous {
		at := l.oldPlace(number)
		if at >= l.Partitions || l.Previous%l.Partitions != 0 {
			all = append(all, f.Stores[at])
		}
	}
	return all
}

type migration struct {
	*Fleet
	Migrated
	tell   func(Migrated)
	sizes  []int // of the remaining partitions
	found  int   // jobs that are elsewhere
	broken error // the first thing that cannot be moved
}

// move moves what one partition has, and completes transits from there.
func (m *migration) move(ctx context.Context, from *store.Store) error {
	reserved := m.Reserved
	topics, err := from.EveryTopic(ctx)
	if err == nil {
		err = m.finishEarlier(ctx, from)
	}
	if err == nil {
		err = m.moveSet(ctx, from, from.Keys().JobPool())
	}
	for _, topic := range topics {
		if err == nil {
			err = m.note(from.Keys().ReadyQueue(topic), m.moveReady(ctx, from, topic))
		}
		if err == nil {
			err = m.note(from.Keys().DeadLetters(topic), m.moveSet(ctx, from, from.Keys().DeadLetters(topic)))
		}
	}
	if err == nil { // ready jobs may have been reserved meanwhile
		m.Reserved = reserved
		err = m.moveSet(ctx, from, from.Keys().JobPool())
	}
	if err == nil {
		err = m.moveSet(ctx, from, from.Keys().Once())
	}
	if err == nil {
		err = m.finishEarlier(ctx, from)
	}
	return err
}

func (m *migration) finishEarlier(ctx context.Context, from *store.Store) error {
	sum, found, err := m.finishTransit(ctx, from)
	add(&m.Adopted, sum)
	if found {
		m.found++
	}
	return err
}

// note keeps an error of a single key, and returns any other.
func (m *migration) note(key string, err error) error {
	if store.KindOf(err) != store.WrongType {
		return err
	}
	if m.broken == nil {
		m.broken = fmt.Errorf("%s: %w", store.Quote(key), err)
	}
	return nil
}

// moveSet moves the jobs or dead letters of a sorted set.
func (m *migration) moveSet(ctx context.Context, from *store.Store, key string) error {
	for place := "0"; ; {
		ids, next, err := from.Members(ctx, key, place, migrateStep)
		if err != nil {
			return err
		}
		m.Left = max(m.Left-len(ids), 0)
		leave, _ := m.divide(from, ids)
		for len(leave) > 0 {
			some := leave[:min(len(leave), migrateStep)]
			lookedAt, err := m.putInTransit(ctx, from, func() *store.Call[store.Transit] { return from.PutInTransitOf(key, some) })
			if err != nil {
				return err
			}
			leave = leave[lookedAt:]
		}
		if place = next; place == "0" {
			return nil
		}
	}
}

func (m *migration) moveReady(ctx context.Context, from *store.Store, topic string) error {
	for _, queue := range []string{from.Keys().ReadyQueue(topic), from.Keys().PausedQueue(topic)} {
		if err := m.moveQueue(ctx, from, queue); err != nil {
			return err
		}
	}
	return nil
}

// moveQueue moves the jobs of a queue. Jobs that stay go to its end one by one, so that they are in the same
// order in the end.
func (m *migration) moveQueue(ctx context.Context, from *store.Store, queue string) error {
	n, err := from.Length(ctx, queue)
	for n > 0 && err == nil {
		var ids []string
		if ids, _, err = from.Members(ctx, queue, "0", min(n, migrateStep)); err != nil || len(ids) == 0 {
			return err
		}
		var lookedAt int
		leave, stay := m.divide(from, ids)
		lookedAt, err = m.putInTransit(ctx, from, func() *store.Call[store.Transit] { return from.PutReadyInTransit(queue, leave, stay) })
		n -= max(lookedAt, 1)
		m.Left = max(m.Left-lookedAt, 0)
	}
	return err
}

// divide divides IDs into those that belong elsewhere and those that do not.
func (m *migration) divide(from *store.Store, ids []string) (leave, stay []string) {
	for _, id := range ids {
		if m.Of(id) == from {
			stay = append(stay, id)
		} else {
			leave = append(leave, id)
		}
	}
	m.found += len(leave)
	return leave, stay
}

// putInTransit puts jobs in transit if they can be stored elsewhere, and completes the transit; first an earlier transit, if
// there was one. It returns how many of the jobs it has handled.
func (m *migration) putInTransit(ctx context.Context, from *store.Store, call func() *store.Call[store.Transit]) (lookedAt int, err error) {
	for _, to := range store.OneOfEachNode(m.Stores[:m.Layout.Partitions]) {
		if err := checkAdopt(ctx, to); err != nil {
			return 0, err
		}
	}
	batch := store.Transit{WasThere: true}
	for batch.WasThere && err == nil {
		if batch, err = call().Do(ctx); err == nil {
			var sum store.Adopted
			sum, err = m.finish(ctx, from, batch)
			add(&m.Adopted, sum)
		}
	}
	m.Reserved += len(batch.Reserved)
	m.tell(m.Migrated)
	return batch.Read, err
}

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

// Place moves jobs and dead letters with these IDs from a partition in which they do not belong to their own. Reserved jobs stay and are
// returned.
func (f *Fleet) Place(ctx context.Context, from *store.Store, ids []string) (reserved map[string]bool, err error) {
	reserved = map[string]bool{}
	err = f.migrateFrom(ctx, from, ids, false, reserved)
	return reserved, err
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
			ids = ids[batch.Read:]
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
		more, _, err = f.finishTransit(ctx, from)
		add(&sum, more)
	}
	return sum, err
}

// finishTransit completes the transit that is under way from the partition, and reports whether there was one.
func (f *Fleet) finishTransit(ctx context.Context, from *store.Store) (sum store.Adopted, found bool, err error) {
	batch, err := from.PutInTransit(nil, false).Do(ctx)
	if err == nil {
		sum, err = f.finish(ctx, from, batch)
	}
	return sum, batch.Serial != 0, err
}

func add(a *store.Adopted, b store.Adopted) {
	a.Stored, a.Superseded = a.Stored+b.Stored, a.Superseded+b.Superseded
}
