package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

const growthAbout = `So many jobs wait, none of them due, and in front of them stand %s that are. How fast are these moved, and how much longer does it take with more waiting
behind them? Each job has its bucket, as in life.`

// bytesPerJob is what a seeded job takes at most.
const bytesPerJob = 450

func benchGrowth(ctx context.Context, r *Run) (Section, error) {
	table := Table{
		ID: "growth", Title: fmt.Sprintf("Moving %s due jobs of a growing pool", number(float64(r.growthDue), 0)),
		Unit: "jobs/s", Head: "waiting jobs", Chart: lines,
	}
	order := []string{floorOf1000, "Delayer, 1 topic", "Delayer, 8 topics"}
	cells := map[string][]Sample{}
	if err := r.Redis.clear(); err != nil {
		return Section{}, err
	}
	seeded := 0
	for _, waiting := range r.growth {
		if free := memoryAvailable(); free > 0 && (waiting-seeded)*bytesPerJob*3/2 > free {
			r.note("%s waiting jobs were left out: too little memory.", number(float64(waiting), 0))
			continue
		}
		progress("  %d waiting", waiting)
		// A day from now on, a millisecond apart.
		// The due ones have other numbers, so that the waiting ones stay.
		if err := r.Redis.seed(1e9+seeded, waiting-seeded, 1, float64(time.Now().Unix())+86400-1e6, 0.001); err != nil {
			return Section{}, err
		}
		seeded = waiting
		timed := func(name string, topics int, move func() (time.Duration, error)) contender {
			return contender{name: name, run: func() ([]float64, error) {
				if err := errors.Join(r.dropReady(), r.Redis.seed(0, r.growthDue, topics, past(), 0)); err != nil {
					return nil, err
				}
				took, err := move()
				return one(float64(r.growthDue)/took.Seconds(), err)
			}}
		}
		contenders := []contender{
			timed(order[0], 1, func() (time.Duration, error) { return r.floorMoves(r.growthDue, 1000, true) }),
			timed(order[1], 1, func() (time.Duration, error) { return r.oursMoves(ctx, r.growthDue, 0) }),
			timed(order[2], 8, func() (time.Duration, error) { return r.oursMoves(ctx, r.growthDue, 0) }),
		}
		results := r.turns(r.pairRepeats, contenders)
		table.Columns = append(table.Columns, Column{Name: number(float64(waiting), 0), X: math.Max(float64(waiting), 1)})
		for _, name := range order {
			cell := Sample(nil)
			if o := results[name]; o != nil {
				cell = o[0]
			}
			cells[name] = append(cells[name], cell)
		}
	}
	for _, name := range order {
		table.Rows = append(table.Rows, Row{name, cells[name]})
	}
	return Section{Title: "Growth", About: fmt.Sprintf(growthAbout, number(float64(r.growthDue), 0)), Tables: []Table{table}}, nil
}

// dropReady takes away what was moved.
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
