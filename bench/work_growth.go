package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

func benchGrowth(ctx context.Context, r *Run) (Section, error) {
	section := Section{Title: "Growth"}
	timed := func(name string, topics int, move func() (time.Duration, error)) contender {
		return contender{name: name, run: func() ([]float64, error) {
			if err := errors.Join(r.dropReady(), r.Redis.seed(0, r.growthDue, topics, past(), 0)); err != nil {
				return nil, err
			}
			took, err := move()
			return one(float64(r.growthDue)/took.Seconds(), err)
		}}
	}
	ours := func() (time.Duration, error) { return r.oursMoves(ctx, r.growthDue, 0) }
	contenders := []contender{
		timed(floorOf1000, 1, func() (time.Duration, error) { return r.floorMoves(r.growthDue, 1000, true) }),
		timed("Delayer, 1 topic", 1, ours),
		timed("Delayer, 8 topics", 8, ours),
	}
	var grown grid
	seeded := 0
	for _, waiting := range r.growth {
		if !r.roomFor(waiting - seeded) {
			continue
		}
		if err := r.Redis.seedWaiting(seeded, waiting-seeded); err != nil {
			return section, err
		}
		seeded = waiting
		grown.add(r, Column{Name: count(waiting), X: float64(waiting)}, r.pairRepeats, contenders)
	}
	section.Tables = []Table{grown.table(Table{
		ID: "growth", Title: fmt.Sprintf("Moving %s due jobs of a growing pool", count(r.growthDue)),
		Unit: "jobs/s", Head: "waiting jobs", Chart: lines,
	})}
	return section, nil
}

// dropReady deletes the moved jobs.
func (r *Run) dropReady() error {
	conn := r.Redis.Pool.Get()
	defer conn.Close()
	args := []any{readyPrefix + topic}
	for i := range 8 {
		args = append(args, fmt.Sprintf("%s%s%d", readyPrefix, topic, i))
	}
	_, err := conn.Do("DEL", args...)
	return err
}
