package main

import (
	"context"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// dueOf returns when job i, pushed now, is due.
type dueOf func(i int) time.Time

func inAnHour(int) time.Time { return time.Now().Add(time.Hour) }

// sooner makes each job due before all earlier ones, and within a minute, so that each push notifies the
// server.
func sooner(i int) time.Time {
	return time.Now().Add(55*time.Second - time.Duration(i)*4*time.Millisecond)
}

// served is our client with our server waiting for due jobs.
type served struct {
	*delayer
	stop context.CancelFunc
	done sync.WaitGroup
}

func newServed(r *Redis) *served {
	ctx, stop := context.WithCancel(context.Background())
	s := &served{delayer: newDelayer(r, 0), stop: stop}
	s.done.Go(func() { s.serve(ctx) })
	return s
}

func (s *served) Close() {
	s.stop()
	s.done.Wait()
	s.delayer.Close()
}

func benchPush(ctx context.Context, r *Run) Section {
	section := Section{Title: "Push"}
	var single, batch grid
	for _, goroutines := range crowds {
		push := func(name string, open func() Peer, due dueOf) contender {
			return contender{name: name, run: func() []float64 {
				return r.onEmpty(ctx, open, func(ctx context.Context, p Peer) []float64 { return r.pushRate(ctx, p, goroutines, due) })
			}}
		}
		contenders := []contender{
			push("floor: raw script", func() Peer { return &floorPeer{redis: r.Redis} }, inAnHour),
			push("original (MULTI)", func() Peer { return newOriginal(r.Redis) }, inAnHour),
			push("Delayer", r.ours, inAnHour),
			push("Delayer, each is the next to fall due", func() Peer { return newServed(r.Redis) }, sooner),
		}
		for _, m := range others() {
			c := push(m.name, r.opener(m), inAnHour)
			c.repeats = min(3, r.repeats)
			contenders = append(contenders, c)
		}
		name := plural(goroutines, "goroutine")
		progress("  %s", name)
		rows := r.turns(r.closeRepeats, contenders)
		single.add(Column{Name: name}, rows, 0)
		if limit := map[int]float64{1: 0.85, 32: 2.5}[goroutines]; limit > 0 {
			section.Targets = append(section.Targets, atLeast("Push, "+name+", against the original's MULTI", limit,
				rows.of("Delayer").column(0).Over(rows.of("original (MULTI)").column(0))))
		}
	}
	rows := r.turns(r.pairRepeats, r.pushBatches(ctx, inAnHour(0).Truncate(time.Second)))
	batch.add(Column{Name: "one goroutine"}, rows, 0)
	section.Tables = []Table{
		single.table("push", "Push, one job per call", "jobs/s", ""),
		batch.table("push-batch", "Push, 1,000 jobs per call", "jobs/s", ""),
	}
	section.Targets = append(section.Targets, atLeast("PushBatch against the raw batch script", 0.85,
		rows.of("Delayer, PushBatch").column(0).Over(rows.of(floorBatch).column(0))))
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
func (r *Run) pushRate(ctx context.Context, p Peer, goroutines int, due dueOf) []float64 {
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

// pushBatches are the contenders that push pushChunk jobs per call.
func (r *Run) pushBatches(ctx context.Context, due time.Time) []contender {
	measure := func(push func(from int)) []float64 {
		r.Redis.clear()
		push(0)
		calls := max(r.batchJobs/pushChunk, 1)
		return []float64{rate(calls*pushChunk, func() {
			for i := range calls {
				push((i + 1) * pushChunk)
			}
		})}
	}
	floor := func(name string, chunk int, push func(conn redis.Conn, from, n int, due time.Time) error) contender {
		return contender{name: name, run: func() []float64 {
			conn := r.Redis.Pool.Get()
			defer conn.Close()
			return measure(func(from int) {
				for end := from + pushChunk; from < end; from += chunk {
					check(push(conn, from, chunk, due))
				}
			})
		}}
	}
	return []contender{
		floor(floorBatch, scriptChunk, floorPushJobs),
		floor(floorWhole, pushChunk, floorPushJobs),
		floor(floorPipeline, pushChunk, pipelinePushJobs),
		{name: "Delayer, PushBatch", run: func() []float64 {
			c := r.openClient()
			defer c.Close()
			return measure(func(from int) { pushBatch(ctx, c, from, pushChunk, due) })
		}},
	}
}
