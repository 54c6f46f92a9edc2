package server

import (
	"fmt"
	"sync"
	"testing"
)

// barrier makes its parties wait until all of them have arrived.
type barrier struct {
	mu      sync.Mutex
	parties int
	here    int
	open    chan struct{}
	rounds  int // rounds with at least two parties
}

func newBarrier(parties int) *barrier {
	return &barrier{parties: parties, open: make(chan struct{})}
}

func (b *barrier) wait() {
	b.mu.Lock()
	b.here++
	open := b.open
	b.openIfComplete()
	b.mu.Unlock()
	<-open
}

func (b *barrier) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.parties--
	b.openIfComplete()
}

func (b *barrier) openIfComplete() {
	if b.here == 0 || b.here < b.parties {
		return
	}
	if b.here > 1 {
		b.rounds++
	}
	b.here = 0
	close(b.open)
	b.open = make(chan struct{})
}

// TestManyServers makes several servers read the same due jobs before any of them moves one, batch after batch. Each
// job enters its queue once, in order.
func TestManyServers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	jobs, topics := 100000, 5
	if testing.Short() {
		jobs = 30000
	}
	for _, servers := range []int{2, 4} {
		t.Run(fmt.Sprint(servers), func(t *testing.T) {
			w.TB = t
			w.many(jobs, topics)
			together := newBarrier(servers)
			var done sync.WaitGroup
			results := make([]result, servers)
			for n := range servers {
				s := New(w.pool(), Options{})
				s.movers[0].batch = batchSize{budget: 1, current: 1000} // the first reads overlap completely, later reads are smaller
				s.test.beforeMove = together.wait
				done.Go(func() {
					defer together.leave()
					var err error
					if results[n], err = passOf(s); err != nil {
						t.Error(err)
					}
				})
			}
			done.Wait()
			moved := 0
			for _, r := range results {
				moved += r.Moved
			}
			if moved != jobs {
				t.Errorf("the servers moved %d jobs together, want %d", moved, jobs)
			}
			if together.rounds < jobs/1000 {
				t.Errorf("only %d rounds of several servers", together.rounds)
			}
			if n := w.Do("ZCARD", prefix+"job_pool"); n != int64(0) {
				t.Errorf("%d jobs still wait", n)
			}
			w.expectManyMoved(jobs, topics)
		})
	}
}

// TestManyServersFree is the same with Run, without a barrier.
func TestManyServersFree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const jobs, topics, servers = 30000, 3, 4
	w.many(jobs, topics)
	for range servers {
		w.server = New(w.pool(), w.options())
		w.run()
	}
	w.log.awaitMoved(t, jobs)
	w.expectManyMoved(jobs, topics)
}
