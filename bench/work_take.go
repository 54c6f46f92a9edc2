package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
)

const takeAbout = `A backlog of ready jobs is taken by 1, 8 and 32 goroutines, one job a call; the server has nothing to do here. "Original" is RPOP, HGETALL,
DEL, which loses a job when it is cut in between. The floor is one script that does the same, and so is Delayer's, plus the checks. In the second table one
goroutine takes 1,000 a call, which PopBatch asks Redis for 250 at a time.`

const takeMany = 1000

var errEmpty = errors.New("the backlog ended early")

func benchTake(ctx context.Context, r *Run) (Section, error) {
	type taker struct {
		take  func() error
		close func() error
	}
	measure := func(name string, open func() taker) contender {
		return contender{name: name, run: func() ([]float64, error) {
			var rates []float64
			for _, goroutines := range []int{1, 8, 32} {
				jobs := r.takeJobs
				if goroutines == 1 {
					jobs /= 4
				}
				if err := errors.Join(r.Redis.clear(), r.Redis.seedReady(jobs+100)); err != nil {
					return nil, err
				}
				t := open()
				err := crowd(goroutines, 100, func(int) error { return t.take() })
				if err != nil {
					return nil, errors.Join(err, t.close())
				}
				rate, err := rate(jobs, func() error { return crowd(goroutines, jobs, func(int) error { return t.take() }) })
				if err := errors.Join(err, t.close()); err != nil {
					return nil, err
				}
				rates = append(rates, rate)
			}
			return rates, nil
		}}
	}
	pooled := func(take func(redis.Conn) error) func() taker {
		return func() taker {
			pool := newPool(r.Redis.addr, 32)
			return taker{func() error {
				conn := pool.Get()
				defer conn.Close()
				return take(conn)
			}, pool.Close}
		}
	}
	ours := func(take func(*client.Client) error) func() taker {
		return func() taker {
			c := client.OpenPool(client.PoolOptions{Addr: r.Redis.addr})
			return taker{func() error { return take(c) }, c.Close}
		}
	}
	contenders := []contender{
		measure("floor: raw script", pooled(func(conn redis.Conn) error {
			_, err := redis.Strings(floorTake.Do(conn, readyPrefix+topic, bucketPrefix))
			return err
		})),
		measure("original (RPOP, HGETALL, DEL)", pooled(func(conn redis.Conn) error {
			_, err := originalPop(conn)
			return err
		})),
		measure("Delayer, Pop", ours(func(c *client.Client) error {
			_, err := c.Pop(ctx, topic)
			return err
		})),
		measure("Delayer, BPop", ours(func(c *client.Client) error {
			_, err := c.BPop(ctx, 5*time.Second, topic)
			return err
		})),
	}
	results := r.turns(r.pairRepeats, contenders)
	section := Section{
		Title: "Take", About: takeAbout,
		Tables: []Table{{
			ID: "take", Title: "Take, one job a call", Unit: "jobs/s", Chart: bars,
			Columns: []Column{{Name: "1 goroutine"}, {Name: "8 goroutines"}, {Name: "32 goroutines"}},
			Rows:    rows(contenders, results),
		}},
	}
	target := Target{Name: "BPop from a backlog, 8 goroutines, against RPOP, HGETALL, DEL", Limit: 1.8, Unit: "×"}
	if ours, theirs := results["Delayer, BPop"], results["original (RPOP, HGETALL, DEL)"]; ours != nil && theirs != nil {
		target.Got = ours[1].Over(theirs[1])
	}

	batches := r.takeBatches(ctx)
	results = r.turns(r.pairRepeats, batches)
	section.Tables = append(section.Tables, Table{
		ID: "take-batch", Title: "Take, 1,000 jobs a call", Unit: "jobs/s", Chart: bars,
		Columns: []Column{{Name: "one goroutine"}}, Rows: rows(batches, results),
	})
	batch := Target{Name: "PopBatch against the raw batch script", Limit: 0.80, Unit: "×"}
	if ours := results["Delayer, PopBatch"]; ours != nil {
		batch.Got = ours[0].Over(results[floorBatch][0])
	}
	section.Targets = []Target{batch, target}
	return section, nil
}

// takeBatches are the contenders that take takeMany jobs a call.
func (r *Run) takeBatches(ctx context.Context) []contender {
	measure := func(take func() (int, error)) ([]float64, error) {
		calls := max(5*r.takeJobs/takeMany, 1)
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
