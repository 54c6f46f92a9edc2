package main

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
)

var errEmpty = errors.New("the backlog ended early")

func benchTake(ctx context.Context, r *Run) Section {
	const original, bPop = "original (RPOP, HGETALL, DEL)", "Delayer, BPop"
	var single grid
	var target Target
	ours := r.openClient()
	defer ours.Close()
	for _, goroutines := range crowds {
		measure := func(name string, take func() error) contender {
			return contender{name: name, run: func() []float64 { return r.takeRate(goroutines, take) }}
		}
		pooled := func(name string, take func(redis.Conn) error) contender {
			return measure(name, func() error {
				conn := r.Redis.Pool.Get()
				defer conn.Close()
				return take(conn)
			})
		}
		name := plural(goroutines, "goroutine")
		progress("  %s", name)
		rows := r.turns(r.closeRepeats, []contender{
			pooled("floor: raw script", floorTakeOne),
			pooled(original, originalPop),
			measure("Delayer, Pop", func() error {
				_, err := ours.Pop(ctx, topic)
				return err
			}),
			measure(bPop, func() error {
				_, err := ours.BPop(ctx, 5*time.Second, topic)
				return err
			}),
		})
		single.add(Column{Name: name}, rows, 0)
		if goroutines == 8 {
			target = atLeast("BPop from a backlog, 8 goroutines, against RPOP, HGETALL, DEL", 1.8, rows.ratio(0, bPop, original))
		}
	}
	batches := r.turns(r.pairRepeats, r.takeBatches(ctx))
	return Section{
		Title: "Take",
		Tables: []Table{
			single.table("take", "Take, one job per call", "jobs/s", ""),
			{ID: "take-batch", Title: "Take, 1,000 jobs per call", Unit: "jobs/s", Columns: batchColumns, Rows: batches},
		},
		Targets: []Target{
			atLeast("Fetch of 250 against the raw batch script", 0.80, batches.ratio(0, "Delayer, Fetch", floorBatch)),
			target,
		},
	}
}

func floorTakeOne(conn redis.Conn) error {
	bodies, err := floorTake(conn, 1)
	if err == nil && len(bodies) == 0 {
		err = errEmpty
	}
	return err
}

// takeRate returns how many jobs per second that many goroutines take.
func (r *Run) takeRate(goroutines int, take func() error) []float64 {
	jobs := share(r.takeJobs, goroutines)
	r.Redis.clear()
	r.Redis.seed(0, jobs+100, 1, "ready", 0)
	all := func(n int) { crowd(goroutines, n, func(int) error { return take() }) }
	all(100) // opens connections, loads scripts
	return []float64{rate(jobs, func() { all(jobs) })}
}

// untilAll takes n jobs, as many at a time as there are.
func untilAll(n int, take func(left int) (int, error)) {
	for left := n; left > 0; {
		got := must(take(left))
		if got == 0 {
			check(errEmpty)
		}
		left -= got
	}
}

// takeBatches are the contenders that take many jobs per call.
func (r *Run) takeBatches(ctx context.Context) []contender {
	floor := func(name string, chunk int, take func(redis.Conn, int) ([]string, error)) contender {
		return r.batched(name, true, func(conn redis.Conn, _ *client.Client, _ int) (int, error) {
			bodies, err := take(conn, chunk)
			return len(bodies), err
		})
	}
	return []contender{
		floor(floorBatch, scriptChunk, floorTake),
		floor(floorWhole, pushChunk, floorTake),
		floor(floorPipeline, pushChunk, pipelineTake),
		r.batched("Delayer, Fetch", true, func(_ redis.Conn, c *client.Client, _ int) (int, error) {
			list, err := c.Fetch(ctx, popped(topic, scriptChunk))
			return len(list), err
		}),
	}
}
