package main

import (
	"context"
	"fmt"
	"time"
)

func benchIdle(ctx context.Context, r *Run) Section {
	var contenders []contender
	for _, m := range append([]maker{allPeers[0]}, others()...) {
		waiting, repeats := r.idlePeers, 1
		if m.name == "Delayer" {
			waiting, repeats = r.idleJobs, 0
		}
		if waiting == 0 {
			continue
		}
		idle := func(name string, jobs int) contender {
			c := r.alone(ctx, name, m.open, func(ctx context.Context, p Peer) []float64 { return r.idleOnce(ctx, p, jobs) })
			c.repeats = repeats
			return c
		}
		contenders = append(contenders, idle(m.name+", empty", 0), idle(fmt.Sprintf("%s, %s waiting", m.name, count(waiting)), waiting))
	}
	return Section{
		Title: "Idle",
		Tables: []Table{{
			ID: "idle", Title: "Cost of waiting",
			Columns: append([]Column{{Name: "Redis, beanstalkd or Faktory, ms of CPU per second", Digits: 2}}, usageColumns[1:]...),
			Rows:    r.turns(min(2, r.slowRepeats), contenders),
		}},
	}
}

// idleOnce returns the usage while nothing happens.
func (r *Run) idleOnce(ctx context.Context, p Peer, waiting int) []float64 {
	if _, ours := p.(*delayer); ours {
		r.Redis.seedWaiting(0, waiting)
	} else {
		due := time.Now().Add(24 * time.Hour)
		crowd(32, waiting, func(i int) error { return p.Push(ctx, int64(i), body(int64(i)), due) })
	}
	p.Consume(ctx, consumers, func(string) {})
	time.Sleep(r.settle) // until everything is set up
	return r.usage(p, func() { time.Sleep(r.idleFor) })
}
