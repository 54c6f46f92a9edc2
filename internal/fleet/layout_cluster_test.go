package fleet

import (
	"errors"
	"testing"

	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// Partition 0 of a cluster decides the layout, and the others copy its latest decision. If it loses the decision, it is
// restored from the copies.
func TestLayoutCopies(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	c := redistest.StartCluster(t)
	pool := poolOf(t, c)
	of := func(l Layout) *Fleet { return l.Open(pool, store.DefaultPrefix) }
	kept := func(partition int) store.KeptLayout {
		t.Helper()
		l, err := store.New(pool, store.KeysOf(store.DefaultPrefix).Partition(partition).Prefix()).Layout(store.AskLayout, store.KeptLayout{}).Do(t.Context())
		check(t, err)
		return l
	}
	expect := func(want store.KeptLayout, in int) {
		t.Helper()
		for i := range in {
			if got := kept(i); got != want {
				t.Errorf("partition %d has kept %+v, want %+v", i, got, want)
			}
		}
	}
	check(t, of(Layout{Partitions: 16}).Stores[3].Ping(t.Context()))
	expect(store.KeptLayout{Partitions: 16, Previous: 0, Version: 1, Most: 16}, 16)
	growing := of(Layout{4, 16})
	check(t, growing.Stores[3].Ping(t.Context()))
	expect(store.KeptLayout{Partitions: 4, Previous: 16, Version: 2, Most: 16}, 16)
	check(t, growing.MigrationDone(t.Context()))
	expect(store.KeptLayout{Partitions: 4, Previous: 0, Version: 3, Most: 16}, 16)

	at := store.New(pool, store.KeysOf(store.DefaultPrefix).Partition(3).Prefix())
	_, err := at.Layout(store.CopyLayout, store.KeptLayout{Partitions: 4, Previous: 16, Version: 2, Most: 16}).Do(t.Context())
	check(t, err)
	expect(store.KeptLayout{Partitions: 4, Previous: 0, Version: 3, Most: 16}, 16) // an old copy arrives too late

	owner := c.Owner(c.Slot("{0}"))
	for n, refused := range map[int]bool{8: true, 4: false} {
		owner.Do("DEL", layoutKey)
		err := of(Layout{Partitions: n}).Stores[1].Ping(t.Context())
		if wrong := new(LayoutError); errors.As(err, &wrong) != refused || !refused && err != nil {
			t.Errorf("with %d partitions, after partition 0 has lost what it kept: %v", n, err)
		}
		expect(store.KeptLayout{Partitions: 4, Previous: 0, Version: 3, Most: 16}, 16)
	}
}
