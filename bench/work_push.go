package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
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

func (s *served) Close() error {
	s.stop()
	s.done.Wait()
	return s.delayer.Close()
}

func benchPush(ctx context.Context, r *Run) (Section, error) {
	section := Section{Title: "Push"}
	var single grid
	for _, goroutines := range crowds {
		push := func(name string, open func() (Peer, error), due dueOf) contender {
			return contender{name: name, run: func() ([]float64, error) {
				return r.onEmpty(ctx, open, func(ctx context.Context, p Peer) ([]float64, error) { return one(r.pushRate(ctx, p, goroutines, due)) })
			}}
		}
		contenders := []contender{
			push("floor: raw script", func() (Peer, error) { return &floorPeer{redis: r.Redis}, nil }, inAnHour),
			push("original (MULTI)", func() (Peer, error) { return newOriginal(r.Redis), nil }, inAnHour),
			push("Delayer", oursAnew(r), inAnHour),
			push("Delayer, each is the next to fall due", func() (Peer, error) { return newServed(r.Redis), nil }, sooner),
		}
		for _, m := range r.others() {
			c := push(m.name, r.opener(m), inAnHour)
			c.repeats = min(3, r.repeats)
			contenders = append(contenders, c)
		}
		single.add(r, crowdColumn(goroutines), r.closeRepeats, contenders)
		if limit := map[int]float64{1: 0.85, 32: 2.5}[goroutines]; limit > 0 {
			section.Targets = append(section.Targets, Target{
				Name:  fmt.Sprintf("Push, %s, against the original's MULTI", crowdColumn(goroutines).Name),
				Limit: limit, Unit: "×", Got: single.ratio("Delayer", "original (MULTI)"),
			})
		}
	}
	var batch grid
	batch.add(r, Column{Name: "one goroutine"}, r.pairRepeats, r.pushBatches(ctx, inAnHour(0).Truncate(time.Second)))
	section.Tables = []Table{
		single.table(Table{ID: "push", Title: "Push, one job per call", Unit: "jobs/s", Chart: bars}),
		batch.table(Table{ID: "push-batch", Title: "Push, 1,000 jobs per call", Unit: "jobs/s", Chart: bars}),
	}
	section.Targets = append(section.Targets, Target{
		Name: "PushBatch against the raw batch script", Limit: 0.85, Unit: "×", Got: batch.ratio("Delayer, PushBatch", floorBatch),
	})
	return section, nil
}

// crowds are the numbers of goroutines that push and take.
var crowds = []int{1, 8, 32}

func crowdColumn(goroutines int) Column {
	if goroutines == 1 {
		return Column{Name: "1 goroutine"}
	}
	return Column{Name: fmt.Sprintf("%d goroutines", goroutines)}
}

const (
	floorBatch    = "floor: raw script, 250 jobs at a time"
	floorWhole    = "floor: raw script, 1,000 jobs at a time"
	floorPipeline = "floor: plain commands, one pipeline of 1,000 jobs"
)

// pushRate returns how many jobs per second that many goroutines push.
func (r *Run) pushRate(ctx context.Context, p Peer, goroutines int, due dueOf) (float64, error) {
	push := func(i int) error { return p.Push(ctx, int64(i), body(int64(i)), due(i)) }
	if err := crowd(goroutines, 100, push); err != nil { // opens connections, loads scripts
		return 0, err
	}
	jobs := share(r.pushJobs, goroutines)
	return rate(jobs, func() error {
		return crowd(goroutines, jobs, func(i int) error { return push(i + 100) })
	})
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
	measure := func(push func(from int64) error) ([]float64, error) {
		if err := r.Redis.clear(); err != nil {
			return nil, err
		}
		if err := push(0); err != nil {
			return nil, err
		}
		calls := max(r.batchJobs/pushChunk, 1)
		return one(rate(calls*pushChunk, func() error {
			for i := range calls {
				if err := push(int64(i+1) * pushChunk); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	floor := func(chunk int64, push func(conn redis.Conn, from, n int64, due time.Time) error) func() ([]float64, error) {
		return func() ([]float64, error) {
			conn := r.Redis.Pool.Get()
			defer conn.Close()
			return measure(func(from int64) error {
				for end := from + pushChunk; from < end; from += chunk {
					if err := push(conn, from, chunk, due); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	return []contender{
		{name: floorBatch, run: floor(scriptChunk, floorPushJobs)},
		{name: floorWhole, run: floor(pushChunk, floorPushJobs)},
		{name: floorPipeline, run: floor(pushChunk, pipelinePushJobs)},
		{name: "Delayer, PushBatch", run: func() ([]float64, error) {
			c := client.OpenPool(client.PoolOptions{Addr: r.Redis.addr})
			defer c.Close()
			return measure(func(from int64) error { return pushBatch(ctx, c, from, pushChunk, due) })
		}},
	}
}
