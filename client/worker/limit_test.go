package worker_test

import (
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// If a topic's limit cannot be read, the worker still serves its other topics.
func TestBrokenLimit(t *testing.T) {
	f := start(t, alone, undivided)
	var log redistest.Log
	check(t, f.SetLimit(t.Context(), "a", client.Limit{Concurrency: 1}))
	f.Do("HSET", "delayer:limits", "a", "broken")
	f.push("a", "a")
	f.push("b", "b")
	f.push("c", "c")
	handled := make(chan string, 10)
	f.run(muxOf(deliver(handled), "a", "b", "c"), worker.Options{Logger: log.Logger()})
	got := map[string]bool{}
	timeout := time.After(8 * time.Second)
	for len(got) < 2 {
		select {
		case id := <-handled:
			got[id] = true
		case <-timeout:
			t.Fatalf("handled %v; log %q", got, log.Lines(""))
		}
	}
}
