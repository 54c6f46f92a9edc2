package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

const connections = 8 // of the pool, to each node

// inCluster has partitions in a cluster, and pushes to them that share round trips.
type inCluster struct {
	*testing.T
	*redistest.Cluster
	partitions []*store.Store
	pushes     *Batcher[store.Delayed]
	wanted     map[string][]string // the IDs that each partition's pool must have
}

func start(t *testing.T) *inCluster {
	t.Helper()
	redistest.Long(t)
	c := redistest.StartCluster(t)
	second := redisconn.Dialer{ConnectTimeout: time.Second, ReadTimeout: redistest.HangBound, WriteTimeout: 3 * time.Second}
	pool := redisconn.NewCluster(c.Addrs(), second, func(d redisconn.Dialer) *redis.Pool {
		return &redis.Pool{MaxActive: connections, Wait: true, MaxIdle: connections, DialContext: d.Dial, TestOnBorrowContext: redisconn.CheckRested}
	})
	owner := &Owner{Running: new(sync.WaitGroup)}
	t.Cleanup(func() {
		owner.Running.Wait()
		pool.Close()
	})
	f := &inCluster{t, c, partitionsOn(pool, 16), NewBatcher(owner, Kind[store.Delayed]{
		Measure: func(job store.Delayed) (string, int) { return job.ID, len(job.Body) },
		Call:    (*store.Store).Push,
	}), map[string][]string{}}
	for _, s := range f.partitions {
		f.expect(f.push(f.Context(), s, "before"), nil)
	}
	return f
}

// partitionsOn returns that many partitions on this Redis.
func partitionsOn(r redisconn.Redis, n int) []*store.Store {
	all, source := make([]*store.Store, n), redisconn.NewSource(r)
	for i := range all {
		all[i] = store.At(source, store.KeysOf(store.DefaultPrefix).Partition(i))
	}
	return all
}

// push starts a push.
func (f *inCluster) push(ctx context.Context, s *store.Store, id string) <-chan error {
	end := make(chan error, 1)
	job := store.Delayed{Job: store.Job{ID: id, Topic: "t", Body: "b"}, Due: store.Due{After: time.Hour}}
	job.Terms = store.Terms{Lifetime: time.Hour, Policy: store.Replace}
	go func() { end <- f.pushes.Do(ctx, s, job) }()
	if ctx == f.Context() { // it does not leave
		f.wanted[s.Keys().JobPool()] = append(f.wanted[s.Keys().JobPool()], id)
	}
	return end
}

func (f *inCluster) expect(end <-chan error, want error) {
	f.Helper()
	if err := redistest.Receive(f.T, end); !errors.Is(err, want) {
		f.Errorf("the push ends with %v, want %v", err, want)
	}
}

func (f *inCluster) slot(s *store.Store) int { return f.Slot(s.Keys().JobPool()) }

// onOneNode returns the partitions of this node.
func (f *inCluster) onOneNode() (s []*store.Store, node *redistest.Server) {
	node = f.Owner(f.slot(f.partitions[0]))
	for _, p := range f.partitions {
		if f.Owner(f.slot(p)) == node {
			s = append(s, p)
		}
	}
	return s, node
}

// another returns a master that does not own the slot.
func (f *inCluster) another(node *redistest.Server) *redistest.Server {
	return f.Servers[(slices.Index(f.Servers[:3], node)+1)%3]
}

// refusals returns how often the node has refused a call because of its slots.
func refusals(node *redistest.Server) (n int) {
	for line := range strings.Lines(string(node.Do("INFO", "errorstats").([]byte))) {
		var count int
		for _, name := range []string{"ASK", "TRYAGAIN", "CLUSTERDOWN"} {
			if _, err := fmt.Sscanf(line, "errorstat_"+name+":count=%d", &count); err == nil {
				n += count
			}
		}
	}
	return n
}

// expectPools checks that each partition has what was pushed, and nothing else.
func (f *inCluster) expectPools() {
	f.Helper()
	for _, s := range f.partitions {
		key := s.Keys().JobPool()
		got := f.Owner(f.slot(s)).Strings("ZRANGE", key, 0, -1)
		slices.Sort(got)
		if want := slices.Sorted(slices.Values(f.wanted[key])); !slices.Equal(got, want) {
			f.Errorf("%s has %q, want %q", key, got, want)
		}
	}
}

// While a partition's slot moves, calls to other partitions of its node do not wait: neither those of the same round trips nor those
// behind.
func TestNobodyWaitsForASlotOnItsWay(t *testing.T) {
	f := start(t)
	some, node := f.onOneNode()
	moving, others := some[0], some[1:]
	m := f.BeginMove(f.slot(moving), f.another(node))
	m.Key(moving.Keys().JobPool())
	var held, free []<-chan error
	node.Hang()
	for i := range 4 * RoundTrips {
		held = append(held, f.push(t.Context(), moving, fmt.Sprint("held", i)))
		free = append(free, f.push(t.Context(), others[i%len(others)], fmt.Sprint("free", i)))
	}
	node.Continue()
	for _, end := range free {
		f.expect(end, nil)
	}
	redistest.Until(t, "it is refused", func() bool { return refusals(node) > 0 })
	for i := range 4 * RoundTrips {
		held = append(held, f.push(t.Context(), moving, fmt.Sprint("behind", i)))
		f.expect(f.push(t.Context(), others[i%len(others)], fmt.Sprint("also free", i)), nil)
	}
	for i, end := range held {
		select {
		case err := <-end:
			t.Errorf("the push %d to the slot on its way ends with %v", i, err)
		default:
		}
	}
	m.End()
	if !t.Failed() {
		for _, end := range held {
			f.expect(end, nil)
		}
	}
	f.expectPools()
}

// A caller that leaves while the slot moves is not served afterwards; nor is a caller whose window is over. Both get the refusal: nothing was done.
func TestLeavingWhileASlotMoves(t *testing.T) {
	f := start(t)
	some, node := f.onOneNode()
	moving := some[0]
	m := f.BeginMove(f.slot(moving), f.another(node))
	m.Key(moving.Keys().JobPool())
	refused := func(end <-chan error, why error) {
		t.Helper()
		err := redistest.Receive(t, end)
		if !errors.Is(err, why) || !store.OfOneSlot(err) || !IsNotDone(err) {
			t.Errorf("the push ends with %v, want %v and a refusal", err, why)
		}
	}
	began := time.Now()
	err := redistest.Receive(t, f.push(context.WithoutCancel(t.Context()), moving, "its window is over"))
	if !store.OfOneSlot(err) || time.Since(began) < redisconn.RetryWindow/2 {
		t.Errorf("the push ends after %v with %v, want a refusal", time.Since(began), err)
	}
	ctx, leave := context.WithCancel(t.Context())
	hurried, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	before := refusals(node)
	left, late, stays := f.push(ctx, moving, "left"), f.push(hurried, moving, "late"), f.push(t.Context(), moving, "stays")
	redistest.Until(t, "all are refused", func() bool { return refusals(node) >= before+4 })
	leave()
	refused(left, context.Canceled)
	refused(late, context.DeadlineExceeded)
	m.End()
	f.expect(stays, nil)
	f.expectPools()
}

// All slots of a node may be refused at once: their callers hold no connections meanwhile.
func TestAllSlotsAreRefused(t *testing.T) {
	f := start(t)
	some, node := f.onOneNode()
	unused := f.slot(some[0]) - 1
	node.Do("CLUSTER", "DELSLOTS", unused)
	redistest.Until(t, "the node serves nobody", func() bool {
		_, err := node.Conn().Do("EXISTS", some[0].Keys().JobPool())
		return err != nil && strings.HasPrefix(err.Error(), "CLUSTERDOWN")
	})
	before := refusals(node)
	var ends []<-chan error
	for i := range 20 {
		for _, s := range some {
			ends = append(ends, f.push(t.Context(), s, fmt.Sprint(i)))
		}
	}
	redistest.Until(t, "they are tried again", func() bool { return refusals(node) > before+2*len(some) })
	var all []*store.Pipeline
	for range connections {
		p, err := some[0].Pipeline(t.Context())
		redistest.Check(t, err)
		all = append(all, p)
	}
	for _, p := range all {
		p.Close()
	}
	node.Do("CLUSTER", "ADDSLOTS", unused)
	for _, end := range ends {
		f.expect(end, nil)
	}
	f.expectPools()
}
