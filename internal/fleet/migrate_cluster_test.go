package fleet

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// In a cluster, two migrations at once move jobs from 3 partitions to 5, while slots of an old and of a new partition
// move between nodes. Each job exists once, unchanged.
func TestMigrateInCluster(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	c := redistest.StartCluster(t)
	pool := poolOf(t, c)
	old, now := Layout{Partitions: 3}.Open(pool, store.DefaultPrefix), Layout{Partitions: 5, Previous: 3}.Open(pool, store.DefaultPrefix)
	ctx := t.Context()
	was := map[string]store.JobInfo{}
	for i := range 600 {
		id := fmt.Sprintf("job {tag %d}", i)
		job := store.Delayed{Job: store.Job{ID: id, Topic: "t", Body: "body of " + id}, Due: store.Due{After: time.Duration(i%2) * time.Hour}, Terms: store.Terms{Lifetime: time.Hour, Policy: store.Replace}}
		errs, err := old.Of(id).Push([]store.Delayed{job}).Do(ctx)
		check(t, errors.Join(append(errs, err)...))
		was[id] = made2(t)(old.Of(id).Get(ctx, id))
	}
	check(t, now.Stores[0].Ping(ctx))
	begin := func(number int) *redistest.Move {
		slot := c.Slot(now.Stores[number].Keys().JobPool())
		from := c.Owner(slot)
		m := c.BeginMove(slot, c.Servers[slices.IndexFunc(c.Servers[:3], func(s *redistest.Server) bool { return s != from })])
		m.Keys(3)
		return m
	}
	second := begin(4)
	migrated := make(chan error, 2)
	for range 2 {
		go func() {
			for {
				done, err := now.Migrate(ctx, func(Migrated) {})
				if done || err != nil && !store.Temporary(err) {
					migrated <- err
					return
				}
			}
		}()
	}
	redistest.Until(t, "jobs are on their way to the second slot, and wait", func() bool {
		transit, err := now.Stores[0].PutInTransit(nil, false).Do(ctx)
		return err == nil && transit.Serial > 0
	})
	first := begin(1)
	second.End()
	first.End()
	for range 2 {
		check(t, redistest.Receive(t, migrated))
	}
	check(t, now.FinishTransits(ctx))
	for id, was := range was {
		is, err := now.Of(id).Get(ctx, id)
		is.TTL, was.TTL = 0, 0
		if err != nil || !reflect.DeepEqual(is, was) {
			t.Errorf("%s is %+v, %v; it was %+v", id, is, err, was)
		}
	}
	stats, err := now.Stats(ctx)
	check(t, err)
	if stats.Waiting != 300 || stats.Topics[0].Ready != 300 {
		t.Errorf("%d wait and %d are ready, want 300 each", stats.Waiting, stats.Topics[0].Ready)
	}
	check(t, now.MigrationDone(ctx))
}
