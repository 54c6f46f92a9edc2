package store

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// movingPartition returns 16 partitions with a job each, of which partition 3 is moving: its pool is on the other node.
func movingPartition(t *testing.T) (*redistest.Cluster, []*Store, *redistest.Move) {
	c := redistest.StartCluster(t)
	p := inCluster(t, c)
	for _, s := range p {
		check(t, errorOf(s.Push([]Delayed{aJob("before", "t", time.Hour)}).Do(t.Context())))
	}
	key := p[3].Keys().JobPool()
	slot := c.Slot(key)
	from := c.Owner(slot)
	m := c.BeginMove(slot, c.Servers[slices.IndexFunc(c.Servers[:3], func(s *redistest.Server) bool { return s != from })])
	m.Key(key)
	return c, p, m
}

// Calls to a migrating slot are made last, each once and in order, and other calls do not wait for them.
func TestInTurnWhileASlotMoves(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	c, p, m := movingPartition(t)
	ctx, moving := t.Context(), p[3]
	var stores []*Store
	for range 3 {
		for _, s := range p {
			stores = append(stores, s, s)
		}
	}
	var order []int
	InTurn(ctx, stores, 4, func(i int) *Call[[]error] { return stores[i].Push([]Delayed{aJob(fmt.Sprint(i), "t", time.Hour)}) }, func(i int, errs []error, err error) bool {
		if err != nil || errs[0] != nil {
			t.Errorf("call %d: %v, %v", i, errs, err)
		}
		if order = append(order, i); len(order) == len(stores)-6 {
			m.End()
		}
		return true
	})
	var want, last []int
	for i, s := range stores {
		if s == moving {
			last = append(last, i)
		} else {
			want = append(want, i)
		}
	}
	if want = append(want, last...); !slices.Equal(order, want) {
		t.Errorf("the order is %d, want %d", order, want)
	}
	for _, s := range p {
		key := s.Keys().JobPool()
		got := c.Owner(c.Slot(key)).Strings("ZRANGE", key, 0, -1)
		want := []string{"before"}
		for i, of := range stores {
			if of == s {
				want = append(want, fmt.Sprint(i))
			}
		}
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("%s has %q, want %q", key, got, want)
		}
	}
}

// No call is retried once answered returns false.
func TestInTurnEndsWhileASlotMoves(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	_, p, m := movingPartition(t)
	ctx, moving := t.Context(), p[3]
	var told []int
	stores := []*Store{moving, p[0], moving, p[1]}
	InTurn(ctx, stores, 1, func(i int) *Call[[]error] { return stores[i].Push([]Delayed{aJob(fmt.Sprint(i), "t", time.Hour)}) }, func(i int, _ []error, _ error) bool {
		told = append(told, i)
		return i != 3
	})
	if !slices.Equal(told, []int{1, 3}) {
		t.Errorf("told of %d, want 1 and 3", told)
	}
	m.End()
	key := moving.Keys().JobPool()
	if got := m.To.Strings("ZRANGE", key, 0, -1); !slices.Equal(got, []string{"before"}) {
		t.Errorf("%s has %q", key, got)
	}
}
