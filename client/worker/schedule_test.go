package worker_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client/worker"
	"github.com/mix-basic/delayer/internal/store"
)

// Concurrency is the exact number of handlers that run at a time.
func TestConcurrency(t *testing.T) {
	for _, concurrency := range []int{1, 3, 10, 1000} {
		f := start(t)
		var e events
		g := newGate()
		f.pushMany(concurrency+5, "", "t")
		o := worker.Options{Concurrency: concurrency, Hooks: e.hooks()}
		if concurrency == 10 {
			o.Concurrency = 0 // means 10
		}
		r := f.run(one(g.handle), o)
		for range concurrency {
			next(t, g.inside)
		}
		for range 5 { // each frees a slot
			if n := len(g.inside); n > 0 {
				t.Errorf("%d of %d handlers too many", n, concurrency)
			}
			g.leave <- nil
			next(t, g.inside)
		}
		for range concurrency {
			g.leave <- nil
		}
		until(t, "all are done", func() bool { return len(e.all()) == 2*(concurrency+5) })
		r.stop()
		f.expectNothing()
	}
}

// A topic's own concurrency bounds its handlers and leaves the other slots to other topics.
func TestConcurrencyOfATopic(t *testing.T) {
	f := start(t)
	var e events
	g := newGate()
	mux := worker.NewMux()
	mux.HandleFunc("bounded", g.handle, worker.TopicOptions{Concurrency: 2, Priority: 1})
	mux.HandleFunc("free", succeed)
	f.pushMany(20, "b", "bounded")
	f.run(mux, worker.Options{Concurrency: 3, Hooks: e.hooks()})
	for range 2 {
		next(t, g.inside)
	}
	f.AwaitWaiter("free")
	f.pushMany(20, "f", "free") // while only this topic is fetched
	until(t, "all of the free topic are done", func() bool { return len(e.all()) == 2+2*20 })
	for range 18 {
		if n := len(g.inside); n > 0 {
			t.Errorf("%d handlers too many of the topic", n)
		}
		g.leave <- nil
		next(t, g.inside)
	}
	for range 2 {
		g.leave <- nil
	}
	until(t, "all are done", func() bool { return len(e.all()) == 2*40 })
	f.expectNothing()
}

// Jobs of a partition wait while a topic with a higher priority has jobs there, even if the topics have different leases.
func TestPriority(t *testing.T) {
	f := start(t)
	var e events
	mux := worker.NewMux()
	for topic, priority := range map[string]int{"3 low": -1, "2 middle": 0, "1 high": 7} {
		mux.HandleFunc(topic, succeed, worker.TopicOptions{Priority: priority, Weight: 1, Lease: time.Duration(priority+2) * time.Minute})
		f.pushMany(100, topic+" ", topic)
	}
	f.run(mux, worker.Options{Concurrency: 1, Hooks: worker.Hooks{Started: func(job *worker.Job) {
		e.add("partition %d: %s", store.PartitionOf(job.ID, max(f.Partitions, 1)), job.Topic)
	}}})
	until(t, "all have begun", func() bool { return len(e.all()) == 300 })
	got := map[string][]string{}
	for _, event := range e.all() {
		partition, topic, _ := strings.Cut(event, ": ")
		got[partition] = append(got[partition], topic)
	}
	for partition, topics := range got {
		if !slices.IsSorted(topics) {
			t.Errorf("%s: the order of the topics was %v", partition, topics)
		}
	}
}

// A topic's rate is never exceeded and does not delay other topics.
func TestRate(t *testing.T) {
	f := start(t)
	const rate, jobs = 50, 20
	var limited, free events
	mux := worker.NewMux()
	mux.HandleFunc("limited", func(context.Context, *worker.Job) error { limited.add(""); return nil }, worker.TopicOptions{Rate: rate, Priority: 1})
	mux.HandleFunc("free", func(context.Context, *worker.Job) error { free.add(""); return nil })
	f.pushMany(jobs, "l", "limited")
	f.pushMany(jobs, "f", "free")
	began := time.Now()
	f.run(mux, worker.Options{})
	until(t, "all of the free topic have come", func() bool { return len(free.all()) == jobs })
	until(t, "all of the limited topic have come", func() bool { return len(limited.all()) == jobs })
	const burst = 3 // 50 ms at that rate
	if took, least := time.Since(began), (jobs-burst)*time.Second/rate; took < least {
		t.Errorf("%d jobs at %d a second began within %v, want %v at least", jobs, rate, took, least)
	}
}
