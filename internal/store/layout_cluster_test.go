package store

import (
	"errors"
	"testing"

	"github.com/mix-basic/delayer/internal/redistest"
)

// Partition 0 of a cluster decides, the others have copies of what it has decided last, and what it loses is restored from these.
func TestLayoutCopies(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	pool := poolOf(t, c)
	of := func(l Layout) Partitions { return l.Open(pool, DefaultPrefix) }
	kept := func(partition int) keptLayout {
		t.Helper()
		l, err := New(pool, Keys{DefaultPrefix}.partition(partition).prefix).layout("ask", keptLayout{}).Do(t.Context())
		check(t, err)
		return l
	}
	expect := func(want keptLayout, in int) {
		t.Helper()
		for i := range in {
			if got := kept(i); got != want {
				t.Errorf("partition %d has kept %+v, want %+v", i, got, want)
			}
		}
	}
	check(t, of(Layout{Partitions: 16})[3].Ping(t.Context()))
	expect(keptLayout{Layout{16, 0}, 1, 16}, 16)
	growing := of(Layout{4, 16})
	check(t, growing[3].Ping(t.Context()))
	expect(keptLayout{Layout{4, 16}, 2, 16}, 16)
	check(t, growing.MigrationDone(t.Context()))
	expect(keptLayout{Layout{4, 0}, 3, 16}, 16)

	at := New(pool, Keys{DefaultPrefix}.partition(3).prefix)
	_, err := at.layout("copy", keptLayout{Layout{4, 16}, 2, 16}).Do(t.Context())
	check(t, err)
	expect(keptLayout{Layout{4, 0}, 3, 16}, 16) // an old copy comes too late

	owner := c.Owner(c.Slot("{0}"))
	for n, refused := range map[int]bool{8: true, 4: false} {
		owner.Do("DEL", layoutKey)
		err := of(Layout{Partitions: n})[1].Ping(t.Context())
		if wrong := new(LayoutError); errors.As(err, &wrong) != refused || !refused && err != nil {
			t.Errorf("with %d partitions, after partition 0 has lost what it kept: %v", n, err)
		}
		expect(keptLayout{Layout{4, 0}, 3, 16}, 16)
	}
}
