package main

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"
)

const takeMany = 1000

var errEmpty = errors.New("the backlog ended early")

func benchTake(ctx context.Context, r *Run) Section {
	const original, bPop = "original (RPOP, HGETALL, DEL)", "Delayer, BPop"
	var single, batch grid
	var target Target
	pool := newPool(r.Redis.addr, 32)
	defer pool.Close()
	ours := r.openClient()
	defer ours.Close()
	for _, goroutines := range crowds {
		measure := func(name string, take func() error) contender {
			return contender{name: name, run: func() []float64 { return r.takeRate(goroutines, take) }}
		}
		pooled := func(name string, take func(redis.Conn) error) contender {
			return measure(name, func() error {
				conn := pool.Get()
				defer conn.Close()
				return take(conn)
			})
		}
		name := plural(goroutines, "goroutine")
		progress("  %s", name)
		rows := r.turns(r.closeRepeats, []contender{
			pooled("floor: raw script", floorTakeOne),
			pooled(original, func(conn redis.Conn) error {
				_, err := originalPop(conn)
				return err
			}),
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
			target = atLeast("BPop from a backlog, 8 goroutines, against RPOP, HGETALL, DEL", 1.8,
				rows.of(bPop).column(0).Over(rows.of(original).column(0)))
		}
	}
	rows := r.turns(r.pairRepeats, r.takeBatches(ctx))
	batch.add(Column{Name: "one goroutine"}, rows, 0)
	return Section{
		Title: "Take",
		Tables: []Table{
			single.table("take", "Take, one job per call", "jobs/s", ""),
			batch.table("take-batch", "Take, 1,000 jobs per call", "jobs/s", ""),
		},
		Targets: []Target{
			atLeast("PopBatch against the raw batch script", 0.80, rows.of("Delayer, PopBatch").column(0).Over(rows.of(floorBatch).column(0))),
			target,
		},
	}
}

func floorTakeOne(conn redis.Conn) error {
	_, err := redis.Strings(floorTake.Do(conn, readyPrefix+topic, bucketPrefix))
	return err
}

// takeRate returns how many jobs per second that many goroutines take.
func (r *Run) takeRate(goroutines int, take func() error) []float64 {
	jobs := share(r.takeJobs, goroutines)
	r.Redis.clear()
	r.Redis.seedReady(jobs + 100)
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

// takeBatches are the contenders that take takeMany jobs per call.
func (r *Run) takeBatches(ctx context.Context) []contender {
	measure := func(take func(int) (int, error)) []float64 {
		jobs := max(r.batchJobs/takeMany, 1) * takeMany
		r.Redis.clear()
		r.Redis.seedReady(jobs + takeMany)
		must(take(takeMany))
		return []float64{rate(jobs, func() { untilAll(jobs, take) })}
	}
	bodies := 0
	got := func(body string) { bodies += len(body) }
	floor := func(name string, chunk int, take func(redis.Conn, int, func(string)) (int, error)) contender {
		return contender{name: name, run: func() []float64 {
			conn := r.Redis.Pool.Get()
			defer conn.Close()
			return measure(func(int) (int, error) { return take(conn, chunk, got) })
		}}
	}
	return []contender{
		floor(floorBatch, scriptChunk, floorTakeJobs),
		floor(floorWhole, takeMany, floorTakeJobs),
		floor(floorPipeline, takeMany, pipelineTakeJobs),
		{name: "Delayer, PopBatch", run: func() []float64 {
			c := r.openClient()
			defer c.Close()
			return measure(func(int) (int, error) {
				list, err := c.PopBatch(ctx, topic, takeMany)
				return len(list), err
			})
		}},
	}
}
