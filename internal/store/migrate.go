package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gomodule/redigo/redis"
)

// Migrated is how far a migration is.
type Migrated struct {
	Adopted
	Left     int // jobs and dead letters that are to be looked at, about; some of them may belong where they are
	Reserved int // jobs that stay for now, because they are reserved
}

// migrateStep is how many IDs a migration asks for, and sets aside, at a time: that takes Redis about a millisecond.
const migrateStep = 50

// Migrate moves jobs and dead letters from the layout before to where they belong, a batch at a time, and tells how far it is after
// each. It returns true once it has found nothing more that is elsewhere. It may be stopped at any point, and begun anew.
// What can't be moved is an error at the end. Reserved jobs are left: another call finds out what became of them.
func (p Partitions) Migrate(ctx context.Context, tell func(Migrated)) (done bool, err error) {
	m := migration{Partitions: p, tell: tell}
	for _, from := range p.leaving() {
		n, err := from.size(ctx)
		if err != nil {
			return false, err
		}
		m.sizes, m.Left = append(m.sizes, n), m.Left+n
	}
	for i := range p.layout().Partitions {
		if err := p[i : i+1].checkAdopt(ctx); err != nil && !Temporary(err) {
			return false, err
		}
	}
	if err := p.CopyPauses(ctx); err != nil && !Temporary(err) { // before jobs come to be ready there
		return false, err
	}
	if err := p.CopyLimits(ctx); err != nil && !Temporary(err) {
		return false, err
	}
	for i, from := range p.leaving() {
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
	return true, p.endOfBefore(ctx)
}

// endOfBefore ends pauses and limits in partitions that are no more: should they come to be again, nobody would know of these.
func (p Partitions) endOfBefore(ctx context.Context) error {
	for _, s := range p[p.layout().Partitions:] {
		paused, err := s.Paused(ctx)
		if err != nil {
			return err
		}
		for _, one := range paused {
			if _, err := (Partitions{s}).Resume(ctx, one.Topic); err != nil {
				return err
			}
		}
		limits, err := redis.StringMap(s.command(ctx, "HGETALL", s.keys.Limits()))
		if err != nil {
			return err
		}
		for topic := range limits {
			if err := s.setLimit(ctx, topic, Limit{}, share{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// MigrationDone has Redis keep that nothing is left of the layout before.
func (p Partitions) MigrationDone(ctx context.Context) error {
	c := p[0].layoutCheck
	kept, err := c.keeper.layout("done", keptLayout{Layout: c.own}).Do(ctx)
	if err == nil {
		c.copy(ctx, kept)
	}
	return err
}

// FinishAside finishes the batches of jobs that somebody has set aside, and then died.
func (p Partitions) FinishAside(ctx context.Context) error {
	var errs []error
	for _, from := range p.leaving() {
		batch, err := from.SetAside(nil, false).Do(ctx)
		if err == nil {
			_, err = p.finish(ctx, from, batch)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// checkAdopt fails if one of the partitions can't adopt jobs: what is set aside for it would stay so.
func (p Partitions) checkAdopt(ctx context.Context) error {
	for _, to := range p {
		if err := to.CheckAdopt(ctx); err != nil {
			return fmt.Errorf("no job can be moved to %s: %w", to.keys.prefix, err)
		}
	}
	return nil
}

// leaving are the partitions of the layout before that have, or had, jobs which belong elsewhere.
func (p Partitions) leaving() (all Partitions) {
	l := p.layout()
	for number := range l.Before {
		at := l.beforeAt(number)
		if at >= l.Partitions || l.Before%l.Partitions != 0 {
			all = append(all, p[at])
		}
	}
	return all
}

// size is how many jobs and dead letters there are, about.
func (s *Store) size(ctx context.Context) (int, error) {
	topics, err := s.allTopics(ctx)
	if err != nil {
		return 0, err
	}
	stats, err := s.Stats(ctx, topics, false)
	n := stats.Pool
	for _, t := range stats.Topics {
		n += max(t.Ready, 0) + max(t.Dead, 0)
	}
	return n, err
}

// allTopics are those that are known or have dead letters.
func (s *Store) allTopics(ctx context.Context) ([]string, error) {
	known, _, err := s.KnownTopics(ctx, AllTopics, "")
	if err != nil {
		return nil, err
	}
	dead, _, err := s.DeadTopics(ctx, AllTopics)
	all := append(known, dead...)
	slices.Sort(all)
	return slices.Compact(all), err
}

// migration is a Migrate that is under way.
type migration struct {
	Partitions
	Migrated
	tell   func(Migrated)
	sizes  []int // of the partitions that are left
	found  int   // jobs that are elsewhere
	broken error // the first of what can't be moved
}

// move moves what one partition has, and finishes what somebody has set aside there.
func (m *migration) move(ctx context.Context, from *Store) error {
	reserved := m.Reserved
	topics, err := from.allTopics(ctx)
	if err == nil {
		err = m.finishAside(ctx, from)
	}
	if err == nil {
		err = m.moveSet(ctx, from, from.keys.JobPool())
	}
	for _, topic := range topics {
		if err == nil {
			err = m.note(from.keys.ReadyQueue(topic), m.moveReady(ctx, from, topic))
		}
		if err == nil {
			err = m.note(from.keys.DeadLetters(topic), m.moveSet(ctx, from, from.keys.DeadLetters(topic)))
		}
	}
	if err == nil { // what was ready at first may have been reserved by then
		m.Reserved = reserved
		err = m.moveSet(ctx, from, from.keys.JobPool())
	}
	if err == nil {
		err = m.moveSet(ctx, from, from.keys.Once())
	}
	if err == nil {
		err = m.finishAside(ctx, from)
	}
	return err
}

func (m *migration) finishAside(ctx context.Context, from *Store) error {
	batch, err := from.SetAside(nil, false).Do(ctx)
	if err != nil || batch.Serial == 0 {
		return err
	}
	m.found++
	return m.finishBatch(ctx, from, batch)
}

func (m *migration) finishBatch(ctx context.Context, from *Store, batch Aside) error {
	sum, err := m.finish(ctx, from, batch)
	m.add(sum)
	return err
}

// note keeps an error that is the one key's, and returns any other.
func (m *migration) note(key string, err error) error {
	if KindOf(err) != WrongType {
		return err
	}
	if m.broken == nil {
		m.broken = fmt.Errorf("%s: %w", Quote(key), err)
	}
	return nil
}

// moveSet moves the jobs, or dead letters, of a sorted set.
func (m *migration) moveSet(ctx context.Context, from *Store, key string) error {
	for place := "0"; ; {
		ids, next, err := from.members(ctx, key, place, migrateStep)
		if err != nil {
			return err
		}
		m.Left = max(m.Left-len(ids), 0)
		leave, _ := m.divide(from, ids)
		for len(leave) > 0 {
			some := leave[:min(len(leave), migrateStep)]
			lookedAt, err := m.setAside(ctx, from, func() *Call[Aside] { return from.setAsideOf(key, some) })
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

// moveReady moves the jobs of a topic that are ready, also while it is paused.
func (m *migration) moveReady(ctx context.Context, from *Store, topic string) error {
	for _, queue := range []string{from.keys.ReadyQueue(topic), from.keys.PausedQueue(topic)} {
		if err := m.moveQueue(ctx, from, queue); err != nil {
			return err
		}
	}
	return nil
}

// moveQueue moves the jobs of a queue. Those that stay go to its end, one after the other, so that they are in the same
// order again in the end.
func (m *migration) moveQueue(ctx context.Context, from *Store, queue string) error {
	n, err := from.length(ctx, queue)
	for n > 0 && err == nil {
		var ids []string
		if ids, _, err = from.members(ctx, queue, "0", min(n, migrateStep)); err != nil || len(ids) == 0 {
			return err
		}
		var lookedAt int
		leave, stay := m.divide(from, ids)
		lookedAt, err = m.setAside(ctx, from, func() *Call[Aside] { return from.SetAsideReady(queue, leave, stay) })
		n -= max(lookedAt, 1)
		m.Left = max(m.Left-lookedAt, 0)
	}
	return err
}

// length is how many entries a list has.
func (s *Store) length(ctx context.Context, list string) (int, error) {
	return redis.Int(s.command(ctx, "LLEN", list))
}

// divide divides IDs into those that belong elsewhere and those that don't.
func (m *migration) divide(from *Store, ids []string) (leave, stay []string) {
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

// setAside makes the call that sets jobs aside, if they can be stored elsewhere, and finishes the batch; before that another one, if
// that was there. It returns how many were looked at of what was asked for.
func (m *migration) setAside(ctx context.Context, from *Store, call func() *Call[Aside]) (lookedAt int, err error) {
	if err := m.Partitions[:m.layout().Partitions].Nodes().checkAdopt(ctx); err != nil {
		return 0, err
	}
	batch := Aside{WasThere: true}
	for batch.WasThere && err == nil {
		if batch, err = call().Do(ctx); err == nil {
			err = m.finishBatch(ctx, from, batch)
		}
	}
	m.Reserved += len(batch.Reserved)
	m.tell(m.Migrated)
	return batch.LookedAt, err
}
