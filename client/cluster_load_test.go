package client_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/server"
)

var loadRate = flag.Int("load.rate", 640, "how many jobs a second TestClusterUnderLoad pushes")

// load makes pushes, pops, reserves and acks, and has their results.
type load struct {
	t *testing.T
	c *client.Client

	mu        sync.Mutex
	pushed    map[string]bool // the push was answered
	delivered map[string]int
	acked     map[string]int
	failing   map[string]time.Time     // since when an operation has been failing
	longest   map[string]time.Duration // the longest time an operation failed
	failures  map[string]int
	unsure    int // pushes and pops whose replies were lost
}

// startLoad runs until stop is called; stop takes the remaining jobs.
func startLoad(t *testing.T, c *client.Client) (l *load, stop func()) {
	l = &load{t: t, c: c, pushed: map[string]bool{}, delivered: map[string]int{}, acked: map[string]int{},
		failing: map[string]time.Time{}, longest: map[string]time.Duration{}, failures: map[string]int{}}
	pushing, endPushes := context.WithCancel(t.Context())
	taking, endTakes := context.WithCancel(t.Context())
	var pushes, takers sync.WaitGroup
	const pushers = 32 // most of the time in different partitions
	for k := range pushers {
		pushes.Go(func() {
			for n := 0; pushing.Err() == nil; n++ {
				l.push(fmt.Sprintf("{%s-%d}%d", t.Name(), k, n), time.Duration(n%3)*50*time.Millisecond)
				time.Sleep(pushers * time.Second / time.Duration(*loadRate))
			}
		})
	}
	for k := range 4 {
		takers.Go(func() {
			for taking.Err() == nil {
				if k%2 == 0 {
					l.pop(taking)
				} else {
					l.reserve(taking)
				}
			}
		})
	}
	return l, func() {
		t.Helper()
		endPushes()
		pushes.Wait()
		for l.isLeft() { // a busy machine may be slow, but each delivery must come within the bound
			before := l.count()
			redistest.Until(t, "another job is delivered, or none is left", func() bool { return l.count() > before || !l.isLeft() })
		}
		endTakes()
		takers.Wait()
	}
}

// isLeft reports whether any job is left to deliver. While a slot moves, the number of reserved jobs may be wrong, and
// so the number of waiting jobs.
func (l *load) isLeft() bool {
	l.mu.Lock()
	var missing []string
	for id := range l.pushed {
		if l.delivered[id] == 0 {
			missing = append(missing, id)
		}
	}
	l.mu.Unlock()
	return slices.ContainsFunc(missing, func(id string) bool {
		job, err := l.c.Get(l.t.Context(), id)
		return err == nil && job.State != client.StateReserved || err != nil && !errors.Is(err, client.ErrNotFound)
	})
}

func (l *load) push(id string, delay time.Duration) {
	_, err := l.c.Push(l.t.Context(), client.Message{ID: id, Topic: "t", Body: "b"}, delay)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note("push", err)
	switch {
	case err == nil:
		l.pushed[id] = true
	case store.KindOf(err) == store.NoAnswer:
		l.unsure++
	}
}

func (l *load) pop(ctx context.Context) {
	m, err := l.c.BPop(ctx, time.Second, "t")
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.delivered[m.ID]++
		l.acked[m.ID]++
	case errors.Is(err, client.ErrLost):
		l.unsure++
	case errors.Is(err, client.ErrEmpty) || ctx.Err() != nil:
		err = nil
	}
	l.note("pop", err)
}

func (l *load) reserve(ctx context.Context) {
	d, err := l.c.Reserve(ctx, time.Minute, "t")
	l.mu.Lock()
	if errors.Is(err, client.ErrEmpty) || ctx.Err() != nil {
		err = nil
	}
	l.note("reserve", err)
	if d != nil {
		l.delivered[d.ID]++
	}
	l.mu.Unlock()
	for d != nil {
		err := d.Ack(l.t.Context())
		l.mu.Lock()
		l.note("ack", err)
		l.mu.Unlock()
		if err == nil || !store.Temporary(err) {
			l.mu.Lock()
			l.acked[d.ID]++
			l.mu.Unlock()
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// note records the result of an operation.
func (l *load) note(what string, err error) {
	since, failing := l.failing[what]
	switch {
	case err != nil && !failing:
		l.failing[what] = time.Now()
		l.failures[what+": "+err.Error()]++
	case err != nil:
		l.failures[what+": "+err.Error()]++
	case failing:
		l.longest[what] = max(l.longest[what], time.Since(since))
		delete(l.failing, what)
	}
}

// sum returns how many jobs were lost, and how many were delivered twice.
func (l *load) sum() (lost, twice int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.pushed {
		if l.delivered[id] == 0 {
			lost++
			job, err := l.c.Get(l.t.Context(), id)
			l.t.Logf("%s is lost: %s, %v", id, job.State, err)
		}
	}
	for _, n := range l.delivered {
		if n > 1 {
			twice++
		}
	}
	l.t.Logf("%d pushed, %d lost, %d twice, %d unsure; failing for %v", len(l.pushed), lost, twice, l.unsure, l.longest)
	n := 0
	for what, times := range l.failures {
		if n++; n < 12 {
			l.t.Logf("%d times %.200s", times, what)
		}
	}
	return lost, twice
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.delivered)
}

// goOn waits until this many more jobs are delivered.
func (l *load) goOn(more int) {
	l.t.Helper()
	more += l.count()
	redistest.Until(l.t, "jobs are delivered", func() bool { return l.count() >= more })
}

// clusterEvent happens to a cluster under load.
type clusterEvent struct {
	name string
	lag  bool // a replica may lack the last writes
	do   func(l *load)
}

func clusterEvents(t *testing.T, cluster *redistest.Cluster) []clusterEvent {
	slot := func(partition int) int { return cluster.Slot(fmt.Sprintf("{%d}", partition)) }
	return []clusterEvent{
		{"a slot moves there and back", false, func(l *load) {
			from := cluster.Owner(slot(5))
			for _, to := range otherMasters(cluster, slot(5)) {
				cluster.MoveSlot(slot(5), to)
				l.goOn(200)
			}
			cluster.MoveSlot(slot(5), from)
		}},
		{"a slot takes its time", false, func(l *load) {
			from := cluster.Owner(slot(7))
			m := cluster.BeginMove(slot(7), otherMasters(cluster, slot(7))[0])
			l.goOn(300)
			m.Keys(3)
			l.goOn(300)
			m.End()
			l.goOn(300)
			cluster.MoveSlot(slot(7), from)
		}},
		{"a node joins", false, func(l *load) {
			to := cluster.AddNode()
			for i := range 4 {
				cluster.MoveSlot(slot(i), to)
			}
		}},
		{"a replica is told to take over", true, func(l *load) {
			cluster.AwaitHealth()
			cluster.Failover(cluster.Servers[3])
			cluster.AwaitOwner(0, cluster.Servers[0])
		}},
		{"a master is killed", true, func(l *load) {
			cluster.AwaitHealth()
			old := cluster.Owner(slot(9))
			cluster.Kill(old)
			began := time.Now()
			cluster.AwaitOwner(slot(9), old)
			t.Logf("the replica took over within %v", time.Since(began))
		}},
	}
}

// While slots move, a master dies and a node joins, a Client continues to work. It loses only jobs that a master had
// not replicated.
func TestClusterUnderLoad(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	cluster := redistest.StartCluster(t)
	c := inCluster(t, cluster)
	pool := redistest.Must(client.Connect(client.PoolOptions{Cluster: cluster.Addrs(), Partitions: clusterPartitions}))
	defer pool.Close()
	work := redistest.Must(server.New(pool, server.Options{Logger: slog.New(slog.DiscardHandler)}))
	check(t, work.Check(t.Context()))
	stopServer := redistest.Background(t, work.Run)
	defer stopServer()
	for _, event := range clusterEvents(t, cluster) {
		t.Run(event.name, func(t *testing.T) {
			l, stop := startLoad(t, c)
			l.goOn(300)
			event.do(l)
			l.goOn(300)
			stop()
			lost, twice := l.sum()
			if event.lag {
				lost, twice = max(lost-l.unsure-20, 0), max(twice-20, 0)
			}
			if lost > 0 || twice > 0 {
				t.Errorf("%d jobs are lost, %d came twice", lost, twice)
			}
		})
	}
}
