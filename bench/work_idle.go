package main

import (
	"context"
	"fmt"
	"time"
)

func benchIdle(ctx context.Context, r *Run) (Section, error) {
	var contenders []contender
	for _, m := range append([]maker{allPeers[0]}, r.others()...) {
		waiting, repeats := r.idlePeers, 1
		if waiting == 0 && m.name != "Delayer" {
			continue
		}
		if m.name == "Delayer" {
			waiting, repeats = r.idleJobs, 0
		}
		name := fmt.Sprintf("%s, %s waiting", m.name, count(waiting))
		for _, c := range []struct {
			name string
			jobs int
		}{{m.name + ", empty", 0}, {name, waiting}} {
			contenders = append(contenders, contender{name: c.name, repeats: repeats, run: func() ([]float64, error) {
				return r.onEmpty(ctx, r.opener(m), func(ctx context.Context, p Peer) ([]float64, error) { return r.idleOnce(ctx, p, c.jobs) })
			}})
		}
	}
	results := r.turns(min(2, r.slowRepeats), contenders)
	return Section{
		Title: "Idle",
		Tables: []Table{{
			ID: "idle", Title: "Cost of waiting",
			Columns: append([]Column{{Name: "Redis, beanstalkd or Faktory, ms of CPU per second", Digits: 2}}, usageColumns[1:]...),
			Rows:    rows(contenders, results),
		}},
	}, nil
}

// idleOnce returns the usage while nothing happens.
func (r *Run) idleOnce(ctx context.Context, p Peer, waiting int) (used []float64, err error) {
	if _, ours := p.(*delayer); ours {
		err = r.Redis.seedWaiting(0, waiting)
	} else {
		due := time.Now().Add(24 * time.Hour)
		err = crowd(32, waiting, func(i int) error { return p.Push(ctx, int64(i), body(int64(i)), due) })
	}
	if err != nil {
		return nil, err
	}
	if err := p.Consume(ctx, consumers, func(string) {}); err != nil {
		return nil, err
	}
	time.Sleep(r.settle) // until everything is set up
	return r.usage(p, func() error {
		time.Sleep(r.idleFor)
		return nil
	})
}
