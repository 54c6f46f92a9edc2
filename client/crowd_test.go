package client_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
)

// opened is how many connections were ever opened.
func (f *fixture) opened() int { f.t.Helper(); return f.info("stats", "total_connections_received:") }

// A crowd that arrives at once, each caller with topics of his own, opens a few connections only.
func TestCrowdSharesConnections(t *testing.T) {
	const callers = 1000
	for name, topics := range map[string]int{"one topic each": 1, "three topics each": 3} {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			before := f.opened()
			results, arrive := make(chan result, callers), make(chan struct{})
			for n := range callers {
				names := make([]string, topics)
				for i := range names {
					names[i] = fmt.Sprint(n, "-", i)
				}
				go func() {
					<-arrive
					m, err := f.BPop(t.Context(), 0, names[0], names[1:]...)
					results <- result{m: m, err: err}
				}()
			}
			close(arrive)
			for n := range callers {
				f.waits(f.Client, fmt.Sprint(n, "-0"), 1)
			}
			if n, most := f.opened()-before, client.MaxTakeCalls+2; n > most { // it listens, and looks
				t.Errorf("%d connections were opened, want at most %d", n, most)
			}
			c := f.open()
			for n := range callers {
				if _, err := c.Push(t.Context(), client.Message{ID: fmt.Sprint(n), Topic: fmt.Sprint(n, "-", topics-1), Body: "b"}, 0); err != nil {
					t.Fatal(err)
				}
			}
			seen := map[string]bool{}
			for range callers {
				r := waitFor(t, results)
				if r.err != nil || seen[r.m.ID] {
					t.Fatalf("BPop = %v, %v: twice?", r.m, r.err)
				}
				seen[r.m.ID] = true
			}
			f.expect(state{})
		})
	}
}

// What was opened for a crowd is closed when it has gone. A few connections are kept, and
// those that are in use stay.
func TestConnectionsOfACrowdAreClosed(t *testing.T) {
	const crowd = 20
	f := start(t)
	before := f.connections()
	c := client.OpenThinned(client.PoolOptions{Addr: f.redis.Addr, ReadTimeout: hangBound}, 10*time.Millisecond)
	defer c.Close()
	f.redis.Hang()
	var calls sync.WaitGroup
	for n := range crowd {
		calls.Go(func() {
			if err := c.Reschedule(t.Context(), fmt.Sprint(n), 0); err == nil {
				t.Error("there is such a job")
			}
		})
	}
	until(t, "all of them are connected", func() bool { return c.Connections() == crowd })
	f.redis.Resume()
	calls.Wait()
	until(t, "the connections are closed", func() bool { return f.connections() <= before+client.KeptIdle })
	if n := f.connections() - before; n != client.KeptIdle {
		t.Errorf("%d connections are kept, want %d", n, client.KeptIdle)
	}
	opened := f.opened()
	for range 10 {
		if err := c.Ping(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if n := f.opened() - opened; n > 0 {
		t.Errorf("%d connections were opened though some are idle", n)
	}
}
