package fleet

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/batch"
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

// An error of Redis concerns one partition only. A Redis that does not respond is tried once, and the error of all names the partition.
func TestEach(t *testing.T) {
	t.Parallel()
	f := open(new(redis.Pool), 5)
	away := errors.New("away")
	for name, c := range map[string]struct {
		errs  []error // of the calls
		calls int
		want  []string
	}{
		"one answers with an error": {[]error{nil, redis.Error("WRONGTYPE x"), nil, nil, nil}, 5, []string{"", "partition 1: WRONGTYPE x", "", "", ""}},
		"it does not respond":       {[]error{nil, redis.Error("WRONGTYPE x"), away}, 3, []string{"", "partition 1: WRONGTYPE x", "partition 2: away", "partition 2: away", "partition 2: away"}},
	} {
		calls := 0
		var got []string
		for _, err := range f.Each(func(i int, s *store.Store) error {
			if calls++; s != f.Stores[i] {
				t.Errorf("%s: call %d is of another partition", name, i)
			}
			return c.errs[i]
		}) {
			if got = append(got, ""); err != nil {
				got[len(got)-1] = err.Error()
			}
		}
		if calls != c.calls || !slices.Equal(got, c.want) {
			t.Errorf("%s: %d calls, %q, want %d, %q", name, calls, got, c.calls, c.want)
		}
	}
}

// In a cluster a partition whose slot is moving holds up no other one. What goes there is done once, in order, when that is over.
func TestPushAllWhileASlotMoves(t *testing.T) {
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
	var jobs []store.Delayed
	var where []*store.Store
	for round := range 3 {
		for k, s := range f.Stores {
			jobs, where = append(jobs, delayed(fmt.Sprint(round, " ", k), "t", time.Hour)), append(where, s)
		}
	}
	done := make(chan []error)
	go func() {
		done <- PushAll(t.Context(), apart, jobs, func(i int) *store.Store { return where[i] }, nil)
	}()
	for _, s := range f.Stores {
		redistest.Until(t, "the others are pushed", func() bool { return s == moving || redistest.Must(s.Size(t.Context())) == 4 })
	}
	m.End()
	redistest.Check(t, errors.Join(redistest.Receive(t, done)...))
	for k, s := range f.Stores {
		if got, err := s.Size(t.Context()); err != nil || got != 4 {
			t.Errorf("partition %d has %d jobs, %v, want 4", k, got, err)
		}
	}
}

// apart makes a chunk of each job.
var apart = batch.Kind[store.Delayed]{Measure: func(store.Delayed) (string, int) { return "", 1 << 20 }}
