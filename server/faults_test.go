package server

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

const outageLine = "Redis does not work for us: "

// TestScriptFlushAtAnyTime makes Redis forget its scripts as fast as it can, even within pipelines.
func TestScriptFlushAtAnyTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const jobs, topics = 5000, 500
	w.many(jobs, topics)
	conn := w.Pool().Get()
	defer conn.Close()
	stop := redistest.Background(t, func(ctx context.Context) error {
		for ctx.Err() == nil {
			conn.Do("SCRIPT", "FLUSH")
		}
		return nil
	})
	w.run()
	w.log.awaitMoved(t, jobs)
	stop()
	w.expectManyMoved(jobs, topics)
}

// produce pushes jobs until stop. pushed has their IDs, with true if a job is certain to be stored; stored receives for each of these.
func (w *world) produce() (pushed map[string]bool, stored chan struct{}, stop func()) {
	var mu sync.Mutex
	pushed, stored = map[string]bool{}, make(chan struct{}, 100000)
	ctx, cancel := context.WithCancel(w.TB.Context())
	var producers sync.WaitGroup
	for p := range 4 {
		s := store.New(w.pool(), prefix)
		producers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				job := store.Job{ID: fmt.Sprintf("%d-%d", p, n), Topic: fmt.Sprint("t", n%3), Body: "b"}
				delay := time.Duration(1+rand.IntN(100)) * time.Millisecond
				err := pushTo(context.Background(), s, job, store.Due{After: delay})
				mu.Lock()
				pushed[job.ID] = err == nil
				mu.Unlock()
				if err == nil {
					stored <- struct{}{}
				} else {
					time.Sleep(time.Millisecond) // spare the CPU while Redis is down
				}
			}
		})
	}
	return pushed, stored, func() { cancel(); producers.Wait() }
}

// TestRedisKilled kills Redis three times while jobs are pushed and moved, once between a read of due jobs and the
// moves. Each job whose push succeeded enters its queue once, and each job whose push failed at most once.
func TestRedisKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "--appendonly", "yes", "--appendfsync", "always")
	killNow, killed := atomic.Bool{}, make(chan struct{})
	w.onLook(func(int) {
		if killNow.CompareAndSwap(true, false) {
			w.Kill()
			killed <- struct{}{}
		}
	})
	stop := w.run()

	pushed, stored, stopProducing := w.produce()
	awaitStored := func(n int) {
		t.Helper()
		for range n {
			redistest.Receive(t, stored)
		}
	}
	for n := range 3 {
		awaitStored(100 + rand.IntN(100))
		if n == 1 {
			killNow.Store(true)
			<-killed
		} else {
			w.Kill()
		}
		w.awaitDials(5)
		w.Restart()
	}
	awaitStored(100)
	stopProducing()
	w.awaitEmptyPool()
	stop()

	times := map[string]int{}
	for topic := range 3 {
		for _, id := range w.Queue(fmt.Sprint("t", topic)) {
			times[id]++
		}
	}
	for id, surely := range pushed {
		if n := times[id]; n > 1 || surely && n == 0 {
			t.Errorf("job %s, stored for sure: %v, is ready %d times", id, surely, n)
		}
		delete(times, id)
	}
	if len(times) > 0 {
		t.Errorf("ready, but never pushed: %v", times)
	}
}

// TestRedisHangs stops Redis between a read of due jobs and the moves. When Redis continues, it runs moves that the
// server has given up: no job is lost or delivered twice.
func TestRedisHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const jobs, topics = 5000, 10
	w.many(jobs, topics)
	w.server = serverOn(w.poolWith(time.Second), 1, w.options())
	w.onLook(func(n int) {
		if n == 2 {
			w.Hang()
		}
	})
	w.run()
	w.log.awaitError(t, outageLine)
	w.awaitDials(3)
	w.Continue()
	w.log.awaitInfo(t, "over after")
	w.awaitEmptyPool()
	w.expectManyMoved(jobs, topics)
	w.log.expectErrorsWith(t, outageLine)
}

// TestConnectionsKilled cuts the server's connections while the server sleeps, and between a read of due jobs and the
// moves. The server reconnects, so this is no outage.
func TestConnectionsKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kill := func() { w.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") }
	const jobs, topics = 20000, 10
	w.many(jobs, topics)
	w.onLook(func(n int) {
		if n == 3 {
			kill()
		}
	})
	w.run()
	w.log.awaitMoved(t, jobs)
	w.expectManyMoved(jobs, topics)
	for n := range 5 {
		kill()
		w.push(fmt.Sprint("more", n), "more", n)
		w.log.awaitMoved(t, jobs+n+1)
	}
	w.log.expectErrors(t)
}

// TestConnectionsKilledAtAnyTime also cuts the connections while Redis runs a script.
func TestConnectionsKilledAtAnyTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const jobs, topics = 50000, 10
	w.many(jobs, topics)
	w.run()
	for range 50 {
		w.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	}
	w.awaitEmptyPool()
	w.expectManyMoved(jobs, topics)
}
