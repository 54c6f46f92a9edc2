package fleet

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// A few calls run at a time, and one that takes long holds up nobody.
func TestFew(t *testing.T) {
	t.Parallel()
	few, hang := NewFew(), make(chan struct{})
	for range 3 * atATime {
		go few.Do(func() { <-hang })
	}
	for range 3 * atATime {
		few.Do(func() {}) // waits for slow at most
	}
	close(hang)

	few = NewFew()
	var now, most atomic.Int32
	done := make(chan struct{})
	for range 10 * atATime {
		go few.Do(func() {
			n := now.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			now.Add(-1)
			done <- struct{}{}
		})
	}
	for range 10 * atATime {
		redistest.Receive(t, done)
	}
	if most.Load() > atATime {
		t.Errorf("%d at a time", most.Load())
	}
	Few(nil).Do(func() { now.Add(1) })
	if now.Load() != 1 {
		t.Error("without a bound there is no call")
	}
}

// Stores of one Redis share a connection, with some calls in flight, and are answered in order.
func TestInTurn(t *testing.T) {
	t.Parallel()
	b, server := onRedis(t)
	pool := server.Pool()
	pool.MaxActive = 1
	f := open(pool, 5)
	check(t, f.Stores[0].Ping(t.Context()))
	for i, s := range f.Stores[:3] {
		b.do(t, "SET", s.Keys().Acked(), 10*i)
	}
	b.do(t, "SADD", f.Stores[3].Keys().Acked(), "x")
	var got []string
	InTurn(t.Context(), f.Stores, 2, func(i int) *store.Call[int64] { return f.Stores[i].Acked() }, func(i int, n int64, err error) {
		got = append(got, fmt.Sprint(i, n, store.KindOf(err) == store.WrongType))
	})
	if want := []string{"0 0 false", "1 10 false", "2 20 false", "3 0 true", "4 0 false"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// In a cluster a partition whose slot is moving holds up no other one. Its calls are made once, in order, when that is over.
func TestInTurnWhileASlotMoves(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	c := redistest.StartCluster(t)
	pool := redisconn.NewCluster(c.Addrs(), redisconn.Dialer{ConnectTimeout: time.Second, ReadTimeout: 3 * time.Second, WriteTimeout: 3 * time.Second}, func(d redisconn.Dialer) *redis.Pool {
		return &redis.Pool{MaxIdle: 4, DialContext: d.Dial}
	})
	defer pool.Close()
	f := open(pool, 16)
	for _, s := range f.Stores {
		push(t, s, "before", "t", time.Hour)
	}
	moving := f.Stores[3]
	key := moving.Keys().JobPool()
	slot := c.Slot(key)
	from := c.Owner(slot)
	m := c.BeginMove(slot, c.Servers[slices.IndexFunc(c.Servers[:3], func(s *redistest.Server) bool { return s != from })])
	m.Key(key)
	stores, others := slices.Concat(f.Stores, f.Stores, f.Stores), 0
	var last []int
	call := func(i int) *store.Call[[]error] {
		return stores[i].Push([]store.Delayed{delayed(fmt.Sprint(i), "t", time.Hour)})
	}
	InTurn(t.Context(), stores, 2, call, func(i int, errs []error, err error) {
		if err != nil || errs[0] != nil {
			t.Errorf("call %d: %v, %v", i, errs, err)
		}
		if stores[i] == moving {
			last = append(last, i)
		} else if others++; others == len(stores)-3 {
			m.End()
		}
	})
	if want := []int{3, 19, 35}; !slices.Equal(last, want) {
		t.Errorf("the calls to the slot on its way are answered in the order %d, want %d", last, want)
	}
	for k, s := range f.Stores {
		if got, err := s.Size(t.Context()); err != nil || got != 4 {
			t.Errorf("partition %d has %d jobs, %v, want 4", k, got, err)
		}
	}
}
