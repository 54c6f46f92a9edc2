package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/server"
)

// counter counts the jobs that a server moves, except those of freshTopic.
type counter struct {
	jobs, moved int64
	done        chan struct{}
	failed      chan error
}

func newCounter(jobs int) *counter {
	return &counter{jobs: int64(jobs), done: make(chan struct{}), failed: make(chan error, 1)}
}

func (c *counter) count(topic string, m server.Moved) {
	if topic != freshTopic && atomic.AddInt64(&c.moved, int64(m.Jobs)) == c.jobs {
		close(c.done)
	}
}

func (c *counter) fail(_ time.Duration, err error) {
	if err != nil {
		select {
		case c.failed <- err:
		default:
		}
	}
}

// oursMoves starts our server on a backlog and returns how long it takes to move that many jobs.
func (r *Run) oursMoves(ctx context.Context, jobs int, budget time.Duration) time.Duration {
	return oursMovesOn(ctx, client.PoolOptions{Addr: r.Redis.addr}, jobs, budget)
}

func oursMovesOn(ctx context.Context, o client.PoolOptions, jobs int, budget time.Duration) time.Duration {
	on := must(client.Connect(o))
	defer on.Close()
	c := must(client.New(on))
	check(c.Ping(ctx))
	defer c.Close()
	ctx, cancel := context.WithCancel(ctx)
	moved := newCounter(jobs)
	ended := make(chan struct{})
	started := time.Now()
	go func() {
		defer close(ended)
		log := slog.New(slog.NewTextHandler(io.Discard, nil))
		hooks := server.Hooks{Moved: moved.count, Passed: moved.fail}
		must(server.New(on, server.Options{StallBudget: budget, Logger: log, Hooks: hooks})).Run(ctx)
	}()
	var err error
	select {
	case <-moved.done:
	case err = <-moved.failed:
	case <-time.After(time.Minute):
		err = fmt.Errorf("moved %d of %d", atomic.LoadInt64(&moved.moved), jobs)
	}
	took := time.Since(started)
	cancel()
	<-ended
	check(err)
	return took
}

// floorMoves times one of the floors.
func (r *Run) floorMoves(jobs, batch int, script bool) time.Duration {
	conn := r.Redis.Pool.Get()
	defer conn.Close()
	move := pipelineMove
	if script {
		move = floorMoveAll
	}
	started := time.Now()
	n := must(move(conn, batch))
	took := time.Since(started)
	if n < jobs {
		check(fmt.Errorf("moved %d of %d", n, jobs))
	}
	return took
}

func benchMove(ctx context.Context, r *Run) Section {
	timed := func(name string, repeats int, move func() time.Duration) contender {
		return contender{name: name, repeats: repeats, run: func() []float64 {
			r.Redis.restore()
			return []float64{float64(r.moveJobs) / move().Seconds()}
		}}
	}
	floor := func(batch int, script bool) func() time.Duration {
		return func() time.Duration { return r.floorMoves(r.moveJobs, batch, script) }
	}
	ours := func(budget time.Duration) func() time.Duration {
		return func() time.Duration { return r.oursMoves(ctx, r.moveJobs, budget) }
	}
	const delayer = "Delayer (budget 2 ms)"
	few := min(3, r.repeats)
	contenders := []contender{
		timed(floorOf1000, 0, floor(1000, true)),
		timed(delayer, 0, ours(0)),
		timed("floor: one script, 100 per call", few, floor(100, true)),
		timed("floor: one script, 7,000 per call", few, floor(7000, true)),
		timed("plain pipeline, 1,000 per call", few, floor(1000, false)),
		timed("Delayer (budget 0.5 ms)", few, ours(500*time.Microsecond)),
		timed("Delayer (budget 8 ms)", few, ours(8*time.Millisecond)),
		timed("Delayer (budget 32 ms)", few, ours(32*time.Millisecond)),
	}
	section := Section{Title: "Move"}
	var moved grid
	for _, topics := range []int{1, 8, 1000} {
		r.overdue(r.moveJobs, topics)
		rows := r.turns(r.pairRepeats, contenders)
		moved.add(Column{Name: plural(topics, "topic")}, rows, 0)
		if topics == 8 {
			section.Targets = []Target{atLeast("Move, 8 topics, against one script doing everything", 0.75, rows.ratio(0, delayer, floorOf1000))}
		}
	}
	section.Tables = []Table{moved.table("move", fmt.Sprintf("Moving %s due jobs", count(r.moveJobs)), "jobs/s", "")}
	return section
}
