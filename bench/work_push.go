package main

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
)

func inAnHour(int) time.Time { return time.Now().Add(time.Hour) }

// sooner makes each job due before all earlier ones, and within a minute, so that each push notifies the
// server.
func sooner(i int) time.Time {
	return time.Now().Add(55*time.Second - time.Duration(i)*4*time.Millisecond)
}

func benchPush(ctx context.Context, r *Run) Section {
	section := Section{Title: "Push"}
	var single grid
	for _, goroutines := range crowds {
		push := func(name string, open func(*Run) Peer) contender {
			return r.alone(ctx, name, open, func(ctx context.Context, p Peer) []float64 { return r.pushRate(ctx, p, goroutines, inAnHour) })
		}
		contenders := []contender{
			push("floor: raw script", func(r *Run) Peer { return &floorPeer{redis: r.Redis} }),
			push("original (MULTI)", func(r *Run) Peer { return newOriginal(r.Redis) }),
			push("Delayer", (*Run).ours),
			r.alone(ctx, "Delayer, each is the next to fall due", (*Run).ours, func(ctx context.Context, p Peer) []float64 {
				p.Consume(ctx, 0, nil) // starts the server
				return r.pushRate(ctx, p, goroutines, sooner)
			}),
		}
		for _, m := range others() {
			c := push(m.name, m.open)
			c.repeats = min(3, r.repeats)
			contenders = append(contenders, c)
		}
		name := plural(goroutines, "goroutine")
		progress("  %s", name)
		rows := r.turns(r.closeRepeats, contenders)
		single.add(Column{Name: name}, rows, 0)
		if limit := map[int]float64{1: 0.85, 32: 2.5}[goroutines]; limit > 0 {
			section.Targets = append(section.Targets, atLeast("Push, "+name+", against the original's MULTI", limit,
				rows.ratio(0, "Delayer", "original (MULTI)")))
		}
	}
	batches := r.turns(r.pairRepeats, r.pushBatches(ctx, inAnHour(0).Truncate(time.Second)))
	section.Tables = []Table{
		single.table("push", "Push, one job per call", "jobs/s", ""),
		{ID: "push-batch", Title: "Push, 1,000 jobs per call", Unit: "jobs/s", Columns: batchColumns, Rows: batches},
	}
	section.Targets = append(section.Targets, atLeast("PushBatch against the raw batch script", 0.85,
		batches.ratio(0, "Delayer, PushBatch", floorBatch)))
	return section
}

// crowds are the numbers of goroutines that push and take.
var crowds = []int{1, 8, 32}

const (
	floorBatch    = "floor: raw script, 250 jobs at a time"
	floorWhole    = "floor: raw script, 1,000 jobs at a time"
	floorPipeline = "floor: plain commands, one pipeline of 1,000 jobs"
)

// pushRate returns how many jobs per second that many goroutines push.
func (r *Run) pushRate(ctx context.Context, p Peer, goroutines int, due func(i int) time.Time) []float64 {
	push := func(i int) error { return p.Push(ctx, int64(i), body(int64(i)), due(i)) }
	crowd(goroutines, 100, push) // opens connections, loads scripts
	jobs := share(r.pushJobs, goroutines)
	return []float64{rate(jobs, func() {
		crowd(goroutines, jobs, func(i int) error { return push(i + 100) })
	})}
}

// share reduces the number of jobs for a single goroutine, which is slower.
func share(jobs, goroutines int) int {
	if goroutines == 1 {
		return jobs / 4
	}
	return jobs
}

// batchColumns are the columns of batched.
var batchColumns = []Column{{Name: "one goroutine"}}

// batched does batchJobs jobs in one goroutine, on an empty Redis or, if ready, on a backlog. do does some jobs and
// returns how many; from counts those done before.
func (r *Run) batched(name string, ready bool, do func(conn redis.Conn, c *client.Client, from int) (int, error)) contender {
	return contender{name: name, run: func() []float64 {
		conn := r.Redis.Pool.Get()
		defer conn.Close()
		c := r.openClient()
		defer c.Close()
		r.Redis.clear()
		if ready {
			r.Redis.seed(0, r.batchJobs+pushChunk, 1, "ready", 0)
		}
		from := must(do(conn, c, 0)) // opens connections, loads scripts
		return []float64{rate(r.batchJobs, func() {
			untilAll(r.batchJobs, func(int) (n int, err error) {
				n, err = do(conn, c, from)
				from += n
				return n, err
			})
		})}
	}}
}

// pushBatches are the contenders that push pushChunk jobs per call.
func (r *Run) pushBatches(ctx context.Context, due time.Time) []contender {
	floor := func(name string, chunk int, push func(conn redis.Conn, from, n int, due time.Time) error) contender {
		return r.batched(name, false, func(conn redis.Conn, _ *client.Client, from int) (int, error) {
			return chunk, push(conn, from, chunk, due)
		})
	}
	return []contender{
		floor(floorBatch, scriptChunk, floorPushJobs),
		floor(floorWhole, pushChunk, floorPushJobs),
		floor(floorPipeline, pushChunk, pipelinePushJobs),
		r.batched("Delayer, PushBatch", false, func(_ redis.Conn, c *client.Client, from int) (int, error) {
			pushBatch(ctx, c, from, pushChunk, due)
			return pushChunk, nil
		}),
	}
}
