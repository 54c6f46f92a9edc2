package fleet

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// A limit that is removed between two migrations does not return with the second one.
func TestLimitGoneBetweenMigrations(t *testing.T) {
	_, server := onRedis(t)
	ctx := t.Context()
	open := func(l Layout) *Fleet { return l.Open(server.Pool(), store.DefaultPrefix) }
	four := open(Layout{Partitions: 4})
	check(t, four.SetLimit(ctx, "t", store.Limit{Concurrency: 8}))
	shrinking := open(Layout{Partitions: 2, Previous: 4})
	done, err := shrinking.Migrate(ctx, func(Migrated) {})
	if !done || err != nil {
		t.Fatal(done, err)
	}
	check(t, shrinking.MigrationDone(ctx))
	two := open(Layout{Partitions: 2})
	check(t, two.SetLimit(ctx, "t", store.Limit{})) // the limit is removed
	growing := open(Layout{Partitions: 4, Previous: 2})
	done, err = growing.Migrate(ctx, func(Migrated) {})
	if !done || err != nil {
		t.Fatal(done, err)
	}
	check(t, growing.MigrationDone(ctx))
	four = open(Layout{Partitions: 4})
	for i := range 40 {
		id := fmt.Sprint(i)
		push(t, four.Of(id), id, "t", 0)
	}
	n := 0
	for _, s := range four.Stores {
		got, err := s.Reserve(store.Wanted{Topics: []string{"t"}, N: 40}, store.Reservation{}).Do(ctx)
		check(t, err)
		n += len(got.Jobs)
	}
	if n != 40 {
		t.Errorf("%d of 40 jobs can be reserved of a topic without a limit", n)
	}
}

// A reserved job that is migrated has a slot in its new partition if the limit bounds concurrency, and none if it only
// bounds the rate.
func TestSlotsOfBroughtLeases(t *testing.T) {
	for name, c := range map[string]struct {
		limit store.Limit
		slots []string
	}{"at a time": {store.Limit{Concurrency: 4}, []string{"a"}}, "a second": {store.Limit{Rate: 1}, nil}, "none": {store.Limit{}, nil}} {
		t.Run(name, func(t *testing.T) {
			b, server := onRedis(t)
			push(t, b.Store, "a", "t", 0)
			one, both := Layout{Partitions: 1}.Open(server.Pool(), store.DefaultPrefix), Layout{Partitions: 2, Previous: 1}.Open(server.Pool(), store.DefaultPrefix)
			check(t, one.SetLimit(t.Context(), "t", c.limit))
			check(t, both.CopyLimits(t.Context()))
			made(t, b.Reserve(store.Wanted{Topics: []string{"t"}, N: 1}, store.Reservation{Lease: time.Hour}))
			reserved, err := both.MigrateJobs(t.Context(), []string{"a"}, true)
			if err != nil || len(reserved) > 0 {
				t.Fatal(reserved, err)
			}
			if slots := b.With(t).Strings("ZRANGE", both.Of("a").Keys().Slots("t"), 0, -1); !slices.Equal(slots, c.slots) {
				t.Errorf("%q have slots, want %q", slots, c.slots)
			}
		})
	}
}

// A topic that is resumed between two migrations is not paused by the second one.
func TestPauseGoneBetweenMigrations(t *testing.T) {
	_, server := onRedis(t)
	ctx := t.Context()
	open := func(l Layout) *Fleet { return l.Open(server.Pool(), store.DefaultPrefix) }
	four := open(Layout{Partitions: 4})
	check(t, four.Pause(ctx, "t", 0, "note"))
	shrinking := open(Layout{Partitions: 2, Previous: 4})
	done, err := shrinking.Migrate(ctx, func(Migrated) {})
	if !done || err != nil {
		t.Fatal(done, err)
	}
	check(t, shrinking.MigrationDone(ctx))
	two := open(Layout{Partitions: 2})
	was, err := two.Resume(ctx, "t")
	if !was || err != nil {
		t.Fatal(was, err)
	}
	growing := open(Layout{Partitions: 4, Previous: 2})
	done, err = growing.Migrate(ctx, func(Migrated) {})
	if !done || err != nil {
		t.Fatal(done, err)
	}
	paused, err := growing.Paused(ctx)
	check(t, err)
	if len(paused) > 0 {
		t.Errorf("paused are %+v", paused)
	}
	if some, err := two.Paused(ctx); len(some) > 0 || err != nil {
		t.Errorf("and where it had been resumed %+v", some)
	}
}

// An expired pause in old partitions does not keep a current pause from being copied.
func TestPauseCopiedOverOneThatIsOver(t *testing.T) {
	b, server := onRedis(t)
	ctx := t.Context()
	two := Layout{Partitions: 2}.Open(server.Pool(), store.DefaultPrefix)
	check(t, two.Pause(ctx, "t", 0, "note"))
	growing := Layout{Partitions: 4, Previous: 2}.Open(server.Pool(), store.DefaultPrefix)
	b.do(t, "HSET", growing.Stores[3].Keys().Paused(), "t", "1000 2000 0 0 old") // expired in 1970; no server has checked since
	check(t, growing.CopyPauses(ctx))
	made(t, growing.Stores[3].KeepPaused("0", 1))
	for i, s := range growing.Stores {
		if b.do(t, "HGET", s.Keys().Paused(), "t") == nil {
			t.Errorf("partition %d is not paused", i)
		}
	}
}
