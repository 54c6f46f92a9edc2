package worker_test

import (
	"context"
	"testing"

	"github.com/mix-basic/delayer/client/worker"
)

// A topic whose ready queue is broken keeps no other from being waited for, and is served
// again when it is well.
func TestBrokenTopicHarmsNoOther(t *testing.T) {
	f := start(t)
	handled := make(chan string, 10)
	mux := worker.NewMux()
	for _, topic := range []string{"broken", "well", "fine"} {
		mux.HandleFunc(topic, func(_ context.Context, job *worker.Job) error {
			handled <- job.ID
			return nil
		})
	}
	f.do("SET", "delayer:ready_queue:broken", "text")
	f.run(mux, worker.Options{})
	f.waitsFor("well") // who waits was not refused
	for _, topic := range []string{"well", "fine"} {
		f.push(topic, topic)
		if id := next(t, handled); id != topic {
			t.Errorf("handled %q, want %q", id, topic)
		}
	}
	f.do("DEL", "delayer:ready_queue:broken")
	f.push("healed", "broken")
	if id := next(t, handled); id != "healed" {
		t.Errorf("handled %q", id)
	}
}

// The same of all its topics: they are served when they are well.
func TestAllTopicsAreBroken(t *testing.T) {
	f := start(t)
	handled := make(chan string, 10)
	mux := worker.NewMux()
	for _, topic := range []string{"t", "u"} {
		f.do("SET", "delayer:ready_queue:"+topic, "text")
		mux.HandleFunc(topic, func(_ context.Context, job *worker.Job) error {
			handled <- job.ID
			return nil
		})
	}
	f.run(mux, worker.Options{})
	for _, topic := range []string{"u", "t"} {
		f.do("DEL", "delayer:ready_queue:"+topic)
		f.push(topic, topic)
		if id := next(t, handled); id != topic {
			t.Errorf("handled %q", id)
		}
	}
}
