package worker_test

import (
	"testing"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
)

// If a topic's limit cannot be read, the worker still serves its other topics.
func TestBrokenLimit(t *testing.T) {
	f := start(t, undivided)
	check(t, f.SetLimit(t.Context(), "a", client.Limit{Concurrency: 1}))
	f.Do("HSET", "delayer:limits", "a", "broken")
	f.push("a", "a")
	f.push("b", "b")
	f.push("c", "c")
	handled := make(chan string, 10)
	f.run(muxOf(deliver(handled), "a", "b", "c"), worker.Options{})
	got := map[string]bool{}
	for len(got) < 2 {
		got[next(t, handled)] = true
	}
}
