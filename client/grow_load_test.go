package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/server"
)

// growing is a Redis whose number of partitions changes under load. Some jobs wait all the time; others are pushed and
// delivered.
type growing struct {
	*fixture
	waiting map[string]float64 // due times

	mu       sync.Mutex
	pushed   map[string]time.Time // earliest due times
	got      map[string]int       // number of deliveries, without retries
	unsure   map[string]bool      // the reply to a push, retry or ack of the job was lost
	failures map[string]int
	early    int
	late     []time.Duration
}

// The number of partitions grows from 1 to 16 and shrinks to 4. Programs with the old and the new configuration run
// side by side, and migrations are killed, cut off or paused at any command. No job is lost, delivered twice or early.
// GROW_LOAD is the number of waiting jobs.
func TestGrowingUnderLoad(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	jobs, _ := strconv.Atoi(os.Getenv("GROW_LOAD"))
	g := &growing{fixture: start(t, oldLayout), waiting: map[string]float64{}, pushed: map[string]time.Time{}, got: map[string]int{}, unsure: map[string]bool{}, failures: map[string]int{}}
	g.fill(max(jobs, 3000))
	for _, l := range []fleet.Layout{{Partitions: 16, Previous: 1}, {Partitions: 4, Previous: 16}} {
		g.grow(l)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	lost, twice := 0, 0
	for id := range g.pushed {
		switch {
		case g.got[id] == 0 && !g.unsure[id]:
			lost++
		case g.got[id] > 1 && !g.unsure[id]:
			twice++
		}
	}
	slices.Sort(g.late)
	at := func(part float64) time.Duration {
		return g.late[int(part*float64(len(g.late)-1))].Round(100 * time.Microsecond)
	}
	t.Logf("%d pushed: %d lost, %d twice, %d early, %d answers lost; late p50 %v, p99 %v, p99.9 %v, at most %v; %v",
		len(g.pushed), lost, twice, g.early, len(g.unsure), at(0.5), at(0.99), at(0.999), at(1), g.failures)
	if lost > 0 || twice > 0 || g.early > 0 || len(g.failures) > 0 {
		t.Error("jobs are lost, or delivered twice or early, or calls failed")
	}
}

// fill pushes jobs to one partition: some wait for hours, and some are ready.
func (g *growing) fill(n int) {
	batch := make([]client.Delayed, n)
	for i := range batch {
		batch[i] = client.Delayed{Message: client.Message{ID: fmt.Sprint("waits ", i), Topic: "waits", Body: "b"}, At: time.Unix(4e9+int64(i), 0)}
		if i%10 == 0 {
			batch[i].At = time.Time{}
		}
		g.waiting[batch[i].ID] = max(float64(batch[i].At.Unix()), 0)
	}
	check(g.TB, errOf(g.PushBatch(g.TB.Context(), batch)))
}

// expectWaiting checks that each of the waiting jobs is unchanged and exists once, in one of this many partitions.
func (g *growing) expectWaiting(partitions int) {
	g.TB.Helper()
	found := map[string]int{}
	for i := range partitions {
		prefix := fmt.Sprintf("delayer:{%d}:", i)
		for _, id := range g.Strings("LRANGE", prefix+"ready_queue:waits", 0, -1) {
			if found[id]++; g.waiting[id] > 0 {
				g.TB.Errorf("%s is ready", id)
			}
		}
		pool := g.Strings("ZRANGE", prefix+"job_pool", 0, -1, "WITHSCORES")
		for k := 0; k < len(pool); k += 2 {
			id := pool[k]
			due, ours := g.waiting[id]
			if score, _ := strconv.ParseFloat(pool[k+1], 64); ours && score != due {
				g.TB.Errorf("%s is due at %v, want %v", id, score, due)
			}
			if ours {
				found[id]++
			}
		}
	}
	wrong := 0
	for id := range g.waiting {
		if found[id] != 1 {
			wrong++
		}
	}
	if wrong > 0 || len(found) != len(g.waiting) {
		g.TB.Errorf("%d of %d jobs that wait are not there once", wrong, len(g.waiting))
	}
}

// grow changes from one layout to the next.
func (g *growing) grow(l fleet.Layout) {
	t := g.TB
	t.Helper()
	pool := g.Pool()
	open := func(l fleet.Layout) *client.Client {
		return g.open(client.WithPartitions(l.Partitions), client.WithPreviousPartitions(l.Previous))
	}
	serve := func(l fleet.Layout) (stop func()) {
		return redistest.Background(t, server.New(pool, server.Options{Partitions: l.Partitions, PreviousPartitions: l.Previous}).Run)
	}
	before := fleet.Layout{Partitions: l.Previous}
	stopOldServer := serve(before)
	stopServer := serve(l)
	endOldPushes, stopOld := g.load(open(before), "old")
	endPushes, stopNew := g.load(open(l), "new")
	began := time.Now()
	kills := g.migrateKilled(l)
	endOldPushes()
	stopOld()
	stopOldServer()
	var moved fleet.Migrated
	redistest.Until(t, "nothing is left", func() bool {
		done, err := l.Open(pool, store.DefaultPrefix).Migrate(t.Context(), func(m fleet.Migrated) { moved = m })
		check(t, err)
		return done
	})
	check(t, l.Open(pool, store.DefaultPrefix).MigrationDone(t.Context()))
	t.Logf("%v: %d kills, %v; last %+v", l, kills, time.Since(began).Round(time.Millisecond), moved)
	endPushes()
	redistest.Until(t, "all are delivered", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		left := 0
		for id := range g.pushed {
			if g.got[id] == 0 && !g.unsure[id] {
				left++
			}
		}
		return left == 0
	})
	stopNew()
	stopServer()
	g.expectWaiting(l.Partitions)
}

// migrateKilled starts migrations that each end at some command, because the context ends, the connection is cut, or a
// pause lets other migrations continue.
func (g *growing) migrateKilled(l fleet.Layout) (kills int) {
	var paused sync.WaitGroup
	defer paused.Wait()
	for {
		ctx, cancel := context.WithCancel(g.TB.Context())
		at, kind := 1+rand.IntN(400+len(g.waiting)/20), kills%3
		var writes atomic.Int64
		abandoned := make(chan bool)
		through := g.Fixture.Pool(redis.DialNetDial(func(network, addr string) (net.Conn, error) {
			conn, err := net.Dial(network, addr)
			return &ending{conn, func() {
				if writes.Add(1) != int64(at) {
					return
				}
				switch kind {
				case 0:
					cancel()
				case 1:
					conn.Close()
				default:
					close(abandoned)
					time.Sleep(time.Duration(rand.IntN(1000)) * time.Millisecond)
				}
			}}, err
		}))
		ended := make(chan bool, 1)
		paused.Go(func() {
			defer cancel()
			done, _ := l.Open(through, store.DefaultPrefix).Migrate(ctx, func(fleet.Migrated) {})
			ended <- done
		})
		select {
		case done := <-ended:
			if writes.Load() < int64(at) || done {
				return kills
			}
		case <-abandoned:
		}
		kills++
	}
}

// ending is a connection that calls a function before each write.
type ending struct {
	net.Conn
	before func()
}

func (e *ending) Write(b []byte) (int, error) {
	e.before()
	return e.Conn.Write(b)
}

// load pushes 250 jobs a second until endPushes is called. It pops some of them and reserves others until stop is
// called.
func (g *growing) load(c *client.Client, name string) (endPushes, stop func()) {
	pushing, cancel := context.WithCancel(g.TB.Context())
	taking, endTakes := context.WithCancel(g.TB.Context())
	var pushers, takers sync.WaitGroup
	for k := range 5 {
		pushers.Go(func() {
			for tick := time.NewTicker(20 * time.Millisecond); pushing.Err() == nil; <-tick.C {
				g.pushOne(c, fmt.Sprintf("%s-%d-%d", name, k, rand.Int64()))
			}
		})
		takers.Go(func() {
			for taking.Err() == nil {
				if k%2 == 0 {
					g.popOne(taking, c)
				} else {
					g.reserveOne(taking, c)
				}
			}
		})
	}
	return func() { cancel(); pushers.Wait() }, func() { endTakes(); takers.Wait() }
}

func (g *growing) pushOne(c *client.Client, id string) {
	delay := []time.Duration{0, 50 * time.Millisecond, time.Second}[rand.IntN(3)]
	due := time.Now().Add(delay)
	_, err := c.Push(g.TB.Context(), client.Message{ID: id, Topic: "t", Body: "b"}, delay)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pushed[id] = due
	g.note("push", id, err)
}

// note records a failure. The caller holds the lock.
func (g *growing) note(what, id string, err error) {
	switch {
	case err == nil:
	case store.KindOf(err) == store.NoAnswer && !errors.Is(err, client.ErrLeaseLost):
		g.unsure[id] = true
	default:
		g.failures[what+": "+err.Error()]++
	}
}

// delivered records a delivery. The reply to the job's push may still be outstanding.
func (g *growing) delivered(id string, at time.Time, first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.got[id]++
	due, pushed := g.pushed[id]
	if !pushed || !first {
		return
	}
	if at.Before(due) {
		g.early++
	}
	g.late = append(g.late, at.Sub(due))
}

func (g *growing) popOne(ctx context.Context, c *client.Client) {
	m, err := c.BPop(ctx, time.Second, "t")
	switch {
	case err == nil:
		g.delivered(m.ID, time.Now(), true)
	case !errors.Is(err, client.ErrEmpty) && ctx.Err() == nil:
		g.mu.Lock()
		g.note("pop", "", err)
		g.mu.Unlock()
	}
}

// reserveOne acknowledges most jobs soon, some late, and retries others.
func (g *growing) reserveOne(ctx context.Context, c *client.Client) {
	d, err := c.Reserve(ctx, time.Second, time.Minute, "t")
	if err != nil {
		if !errors.Is(err, client.ErrEmpty) && ctx.Err() == nil {
			g.mu.Lock()
			g.note("reserve", "", err)
			g.mu.Unlock()
		}
		return
	}
	g.delivered(d.ID, time.Now(), d.Attempt == 1)
	end := d.Ack
	switch rand.IntN(20) {
	case 0:
		time.Sleep(300 * time.Millisecond)
	case 1:
		end = func(ctx context.Context) error {
			g.mu.Lock()
			g.got[d.ID]--
			g.mu.Unlock()
			return d.Retry(ctx, 50*time.Millisecond)
		}
	}
	err = end(g.TB.Context())
	g.mu.Lock()
	defer g.mu.Unlock()
	g.note("settle", d.ID, err)
}
