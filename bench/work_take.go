package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
)

const takeMany = 1000

var errEmpty = errors.New("the backlog ended early")

func benchTake(ctx context.Context, r *Run) (Section, error) {
	const original, bPop = "original (RPOP, HGETALL, DEL)", "Delayer, BPop"
	var single grid
	var target Target
	pool := newPool(r.Redis.addr, 32)
	defer pool.Close()
	pooled := func(take func(redis.Conn) error) func() error {
		return func() error {
			conn := pool.Get()
			defer conn.Close()
			return take(conn)
		}
	}
	ours := client.OpenPool(client.PoolOptions{Addr: r.Redis.addr})
	defer ours.Close()
	for _, goroutines := range crowds {
		measure := func(name string, take func() error) contender {
			return contender{name: name, run: func() ([]float64, error) { return one(r.takeRate(goroutines, take)) }}
		}
		single.add(r, crowdColumn(goroutines), r.closeRepeats, []contender{
			measure("floor: raw script", pooled(func(conn redis.Conn) error {
				_, err := redis.Strings(floorTake.Do(conn, readyPrefix+topic, bucketPrefix))
				return err
			})),
			measure(original, pooled(func(conn redis.Conn) error {
				_, err := originalPop(conn)
				return err
			})),
			measure("Delayer, Pop", func() error {
				_, err := ours.Pop(ctx, topic)
				return err
			}),
			measure(bPop, func() error {
				_, err := ours.BPop(ctx, 5*time.Second, topic)
				return err
			}),
		})
		if goroutines == 8 {
			target = Target{
				Name: "BPop from a backlog, 8 goroutines, against RPOP, HGETALL, DEL", Limit: 1.8, Unit: "×", Got: single.ratio(bPop, original),
			}
		}
	}
	var batch grid
	batch.add(r, Column{Name: "one goroutine"}, r.pairRepeats, r.takeBatches(ctx))
	return Section{
		Title: "Take",
		Tables: []Table{
			single.table(Table{ID: "take", Title: "Take, one job per call", Unit: "jobs/s", Chart: bars}),
			batch.table(Table{ID: "take-batch", Title: "Take, 1,000 jobs per call", Unit: "jobs/s", Chart: bars}),
		},
		Targets: []Target{
			{Name: "PopBatch against the raw batch script", Limit: 0.80, Unit: "×", Got: batch.ratio("Delayer, PopBatch", floorBatch)},
			target,
		},
	}, nil
}

// takeRate returns how many jobs per second that many goroutines take.
func (r *Run) takeRate(goroutines int, take func() error) (float64, error) {
	jobs := share(r.takeJobs, goroutines)
	if err := errors.Join(r.Redis.clear(), r.Redis.seedReady(jobs+100)); err != nil {
		return 0, err
	}
	all := func(n int) error { return crowd(goroutines, n, func(int) error { return take() }) }
	if err := all(100); err != nil { // opens connections, loads scripts
		return 0, err
	}
	return rate(jobs, func() error { return all(jobs) })
}

// takeBatches are the contenders that take takeMany jobs per call.
func (r *Run) takeBatches(ctx context.Context) []contender {
	measure := func(take func() (int, error)) ([]float64, error) {
		calls := max(r.batchJobs/takeMany, 1)
		if err := errors.Join(r.Redis.clear(), r.Redis.seedReady((calls+1)*takeMany)); err != nil {
			return nil, err
		}
		if _, err := take(); err != nil {
			return nil, err
		}
		return one(rate(calls*takeMany, func() error {
			for left := calls * takeMany; left > 0; {
				n, err := take()
				if err != nil {
					return err
				}
				if n == 0 {
					return fmt.Errorf("%w: %d", errEmpty, left)
				}
				left -= n
			}
			return nil
		}))
	}
	bodies := 0
	got := func(body string) { bodies += len(body) }
	floor := func(chunk int, take func(redis.Conn, int, func(string)) (int, error)) func() ([]float64, error) {
		return func() ([]float64, error) {
			conn := r.Redis.Pool.Get()
			defer conn.Close()
			return measure(func() (int, error) { return take(conn, chunk, got) })
		}
	}
	return []contender{
		{name: floorBatch, run: floor(scriptChunk, floorTakeJobs)},
		{name: floorWhole, run: floor(takeMany, floorTakeJobs)},
		{name: floorPipeline, run: floor(takeMany, pipelineTakeJobs)},
		{name: "Delayer, PopBatch", run: func() ([]float64, error) {
			c := client.OpenPool(client.PoolOptions{Addr: r.Redis.addr})
			defer c.Close()
			return measure(func() (int, error) {
				list, err := c.PopBatch(ctx, topic, takeMany)
				return len(list), err
			})
		}},
	}
}
