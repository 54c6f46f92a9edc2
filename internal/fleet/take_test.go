package fleet

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/batch"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/internal/wait"
)

var errClosed = errors.New("closed")

// takers returns a Client's Takers of the stores, with a Listener for each as in a cluster if these are on several servers.
func takers(t *testing.T, isCluster bool, stores ...*store.Store) *Takers {
	closing, cancel := context.WithCancel(context.Background())
	owner := &batch.Owner{Running: new(sync.WaitGroup), Closed: errClosed}
	t.Cleanup(func() { cancel(); owner.Running.Wait() })
	var log redistest.Log
	f := &Fleet{Stores: stores}
	all := f.Takers(closing, owner, wait.Hooks{Logger: log.Logger(), Popped: func(store.Popped) {}, Lost: func(int) {}})
	if isCluster {
		all.listeners = nil
		for _, p := range all.partitions {
			all.listeners = append(all.listeners, all.shared.NewListener(p))
		}
	}
	all.begins(0)
	return all
}

func popOf(topics ...string) wait.Request { return wait.Request{Topics: topics, N: 1} }

// begins makes all calls begin with that partition.
func (t *Takers) begins(with int) { t.first = func(int) int { return with } }

type taken struct {
	wait.Jobs
	err error
}

// waits starts a call that waits for a job of one of the topics, and returns once it waits in all partitions.
func (t *Takers) waits(tb *testing.T, timeout time.Duration, topics ...string) <-chan taken {
	tb.Helper()
	result := make(chan taken, 1)
	go func() {
		r := popOf(topics...)
		r.Waits = true
		got, err := t.Take(tb.Context(), r, timeout)
		result <- taken{got, err}
	}()
	for _, p := range t.partitions {
		redistest.Until(tb, "it waits", func() bool { s := p.State(topics[0]); return s.Waiting > 0 && s.Registered })
	}
	return result
}

func expectTaken(t *testing.T, what, want string, got wait.Jobs, err error) {
	t.Helper()
	if err != nil || len(got.Jobs) != 1 || got.Jobs[0].ID != want {
		t.Errorf("%s: %+v, %v, want job %s", what, got.Jobs, err, want)
	}
}

// A call that does not wait polls one partition. Without a job there, it checks the others and polls those that have jobs only.
func TestPopOfPartitions(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t)
	f := b.partitioned(8)
	k := takers(t, false, f.Stores...)
	k.Take(t.Context(), popOf("t"), 0) // lets Redis know the scripts
	for first := range 8 {
		k.begins(first)
		for _, c := range []struct {
			job          int // its partition, from the one polled first on; -1 for none
			polls, calls int
		}{{-1, 1, 8}, {0, 1, 1}, {1, 2, 9}, {7, 2, 9}} {
			if c.job >= 0 {
				push(t, f.Stores[(first+c.job)%8], "a", "t", 0)
			}
			before := b.AllCalls()
			got, err := k.Take(t.Context(), popOf("t"), 0)
			after := b.AllCalls()
			// pop.lua reads its queue with LRANGE, check.lua does not.
			if polls, calls := after["lrange"]-before["lrange"], after["evalsha"]-before["evalsha"]; polls != c.polls || calls != c.calls {
				t.Errorf("first %d, job at %d: %d polls of %d calls, want %d of %d", first, c.job, polls, calls, c.polls, c.calls)
			}
			if c.job >= 0 {
				expectTaken(t, "the job", "a", got, err)
			} else if err != store.ErrEmpty {
				t.Errorf("without a job: %v", err)
			}
		}
	}
}

// Calls begin with any partition, also each second one, as if another caller's came in between.
func TestFirstPartition(t *testing.T) {
	k, first := open(&redis.Pool{}, 4).Takers(t.Context(), nil, wait.Hooks{}), map[*wait.Partition]bool{}
	for range 100 {
		first[k.inOrder()[0]] = true
		k.inOrder()
	}
	if len(first) != 4 {
		t.Errorf("they begin with %d of 4", len(first))
	}
}

// A waiting caller gets a job of any partition and topic, whether it is there before it or comes later. All partitions of a Redis share one subscription.
// A timeout, or Close, ends the wait.
func TestWaitingInPartitions(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t)
	f := b.partitioned(16)
	k := takers(t, false, f.Stores...)
	for i, s := range f.Stores {
		topic := []string{"t", "u"}[i%2]
		result := k.waits(t, 0, "t", "u")
		k.Partition(0).Calm()
		push(t, s, "later", topic, 0)
		got := redistest.Receive(t, result)
		expectTaken(t, "a job that comes", "later", got.Jobs, got.err)

		push(t, s, "before", topic, 0)
		r := popOf("u", "t")
		r.Waits, r.Reserves, r.Lease = true, true, time.Minute
		leased, err := k.Take(t.Context(), r, 0)
		expectTaken(t, "a job that is there", "before", leased, err)
		if len(leased.Leases) != 1 || time.Since(leased.AskedAt) > redistest.HangBound {
			t.Errorf("leased as %+v", leased)
		}
	}
	if list, _ := redis.String(b.Do("CLIENT", "LIST", "TYPE", "pubsub"), nil); strings.Count(list, "\n") != 1 {
		t.Errorf("subscriptions: %q", list)
	}
	for range 2 { // at first the topic is unknown
		r := popOf("v")
		r.Waits = true
		if _, err := k.Take(t.Context(), r, 10*time.Millisecond); err != store.ErrEmpty {
			t.Errorf("after a timeout: %v", err)
		}
	}
}

// While a partition does not respond, others serve callers, and are polled first. Callers that get no job learn of the error.
func TestPartitionAway(t *testing.T) {
	t.Parallel()
	a, _ := onRedis(t)
	other, server := onRedis(t)
	k := takers(t, true, a.Store, other.Store)
	result := k.waits(t, 0, "t")
	server.Hang()
	push(t, a.Store, "woken", "t", 0)
	got := redistest.Receive(t, result)
	expectTaken(t, "while one hangs", "woken", got.Jobs, got.err)
	server.Continue()
	server.Kill()
	for turn := range 4 {
		k.begins(turn % 2)
		if _, err := k.Take(t.Context(), popOf("t"), 0); err == nil || err == store.ErrEmpty {
			t.Errorf("without a job: %v", err)
		}
		push(t, a.Store, "there", "t", 0)
		got, err := k.Take(t.Context(), popOf("t"), 0)
		expectTaken(t, "while one is away", "there", got, err)
		if order := k.inOrder(); turn > 0 && order[0] != k.Partition(0) {
			t.Error("the one that is away is polled first")
		}
	}
	server.Restart()
	push(t, other.Store, "back", "t", 0)
	back, err := k.Take(t.Context(), popOf("t"), 0)
	if expectTaken(t, "once it is back", "back", back, err); k.Partition(1).IsShunned() {
		t.Error("it is still polled last")
	}
}
