package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/server"
)

const moveAbout = `All jobs are due when the server starts; measured is how fast they get into their ready queues. The floor is one script that looks up, takes out
of the pool and pushes into the queues, and tells nobody what it moved; a plain pipeline does the same by ZRANGEBYSCORE LIMIT, HMGET and MULTI. Delayer looks
up with one script, moves with one per topic, checks that each job still waits and is due, and names every moved job to its log. Its batch size follows the stall
budget: how long one script may keep Redis from others (2 ms unless changed).`

// counter is a server.Logger that counts moved jobs, except those of freshTopic.
type counter struct {
	jobs, moved int64
	failed      atomic.Pointer[string]
	done        chan struct{}
}

func newCounter(jobs int) *counter { return &counter{jobs: int64(jobs), done: make(chan struct{})} }

func (c *counter) Info(line string) {
	_, ids, ok := strings.Cut(line, "IDs: [")
	if !ok || strings.Contains(line, "Topic: "+freshTopic+",") {
		return
	}
	n := int64(strings.Count(ids, ",") + 1)
	if atomic.AddInt64(&c.moved, n) == c.jobs {
		close(c.done)
	}
}

func (c *counter) Error(line string) { c.failed.Store(&line) }

// oursMoves starts our server on what is due and returns how long it takes
// to move so many jobs.
func (r *Run) oursMoves(ctx context.Context, jobs int, budget time.Duration) (time.Duration, error) {
	pool := client.NewPool(client.PoolOptions{Addr: r.Redis.addr})
	defer pool.Close()
	if _, err := pool.Get().Do("PING"); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	count := newCounter(jobs)
	ended := make(chan struct{})
	started := time.Now()
	go func() {
		defer close(ended)
		server.New(pool, server.Options{StallBudget: budget, Logger: count}).Run(ctx)
	}()
	var err error
	select {
	case <-count.done:
	case <-time.After(time.Minute):
		err = fmt.Errorf("moved %d of %d", atomic.LoadInt64(&count.moved), jobs)
	}
	took := time.Since(started)
	cancel()
	<-ended
	if line := count.failed.Load(); line != nil {
		err = errors.Join(err, errors.New(*line))
	}
	return took, err
}

// floorMoves times one of the floors.
func (r *Run) floorMoves(jobs, batch int, script bool) (time.Duration, error) {
	conn := r.Redis.Pool.Get()
	defer conn.Close()
	started := time.Now()
	move := pipelineMove
	if script {
		move = floorMoveAll
	}
	n, err := move(conn, batch)
	took := time.Since(started)
	if err == nil && n != jobs {
		err = fmt.Errorf("moved %d of %d", n, jobs)
	}
	return took, err
}

const floorOf1000 = "floor: one script, 1,000 a call"

func benchMove(ctx context.Context, r *Run) (Section, error) {
	section := Section{Title: "Move", About: moveAbout}
	table := Table{ID: "move", Title: fmt.Sprintf("Moving %s due jobs", number(float64(r.moveJobs), 0)), Unit: "jobs/s", Chart: bars}
	all := map[string]*Row{}
	var order []string
	timed := func(name string, f func() (time.Duration, error)) contender {
		return contender{name: name, run: func() ([]float64, error) {
			if err := r.Redis.restore(); err != nil {
				return nil, err
			}
			took, err := f()
			return one(float64(r.moveJobs)/took.Seconds(), err)
		}}
	}
	for column, topics := range []int{1, 8, 1000} {
		progress("  %d topics", topics)
		if err := errors.Join(r.Redis.clear(), r.Redis.seed(0, r.moveJobs, topics, past(), 0), r.Redis.keep()); err != nil {
			return section, err
		}
		contenders := []contender{
			timed(floorOf1000, func() (time.Duration, error) { return r.floorMoves(r.moveJobs, 1000, true) }),
			timed("Delayer (budget 2 ms)", func() (time.Duration, error) { return r.oursMoves(ctx, r.moveJobs, 0) }),
		}
		pair := r.turns(r.pairRepeats, contenders)
		more := []contender{
			timed("floor: one script, 100 a call", func() (time.Duration, error) { return r.floorMoves(r.moveJobs, 100, true) }),
			timed("floor: one script, 7,000 a call", func() (time.Duration, error) { return r.floorMoves(r.moveJobs, 7000, true) }),
			timed("plain pipeline, 1,000 a call", func() (time.Duration, error) { return r.floorMoves(r.moveJobs, 1000, false) }),
		}
		for _, budget := range []time.Duration{500 * time.Microsecond, 8 * time.Millisecond, 32 * time.Millisecond} {
			more = append(more, timed(fmt.Sprintf("Delayer (budget %v ms)", milliseconds(budget)),
				func() (time.Duration, error) { return r.oursMoves(ctx, r.moveJobs, budget) }))
		}
		results := r.turns(min(3, r.repeats), more)
		for name, o := range pair {
			results[name] = o
		}
		for _, c := range append(contenders, more...) {
			row := all[c.name]
			if row == nil {
				row = &Row{Name: c.name, Cells: make([]Sample, 3)}
				all[c.name] = row
				order = append(order, c.name)
			}
			if o := results[c.name]; o != nil {
				row.Cells[column] = o[0]
			}
		}
		table.Columns = append(table.Columns, Column{Name: fmt.Sprintf("%s topics", number(float64(topics), 0))})
		if o := pair["Delayer (budget 2 ms)"]; o != nil && topics == 8 {
			section.Targets = append(section.Targets, Target{
				Name: "Move, 8 topics, against one script doing everything", Limit: 0.75, Unit: "×", Got: o[0].Over(pair[floorOf1000][0]),
			})
		}
	}
	table.Columns[0].Name = "1 topic"
	for _, name := range order {
		table.Rows = append(table.Rows, *all[name])
	}
	section.Tables = append(section.Tables, table)
	return section, nil
}
