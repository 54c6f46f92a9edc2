package main

import (
	"context"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
)

const pushAbout = `Jobs are pushed with a delay of an hour into an empty queue, by 1, 8 and 32 goroutines, each waiting for its answer before
it pushes again. The 32 connections of the original's pool are as many as Delayer's client opens by itself. The original stores whole seconds, Delayer
milliseconds. "Each is the next to fall due": a server waits, and the delays get shorter from push to push, so that each push tells it by a PUBLISH; that is
what it can cost to tell. In the second table one
goroutine pushes batches of 1,000, which PushBatch sends to Redis 250 at a time; the shortest script that stores as many at a time is what it is held against.`

// dueOf is when the push of job i, made now, falls due.
type dueOf func(i int) time.Time

func inAnHour(int) time.Time { return time.Now().Add(time.Hour) }

// sooner makes each job fall due before those pushed until then.
func sooner(i int) time.Time {
	return time.Now().Add(time.Hour - time.Duration(i)*100*time.Millisecond)
}

// served is our client while our server waits for what falls due.
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
	crowds := []int{1, 8, 32}
	single := func(name string, open func() (Peer, error), due dueOf, slow bool) contender {
		c := contender{name: name, run: func() ([]float64, error) {
			var rates []float64
			for _, goroutines := range crowds {
				rate, err := r.pushRate(ctx, open, goroutines, due)
				if err != nil {
					return nil, err
				}
				rates = append(rates, rate)
			}
			return rates, nil
		}}
		if slow {
			c.repeats = min(3, r.repeats)
		}
		return c
	}
	contenders := []contender{
		single("floor: raw script", func() (Peer, error) { return &floorPeer{r.Redis}, nil }, inAnHour, false),
		single("original (MULTI)", func() (Peer, error) { return newOriginal(r.Redis), nil }, inAnHour, false),
		single("Delayer", func() (Peer, error) { return newDelayer(r.Redis, 0), nil }, inAnHour, false),
		single("Delayer, each is the next to fall due", func() (Peer, error) { return newServed(r.Redis), nil }, sooner, false),
	}
	for _, m := range r.others() {
		contenders = append(contenders, single(m.name, func() (Peer, error) { return m.open(r) }, inAnHour, true))
	}
	results := r.turns(r.pairRepeats, contenders)
	section := Section{
		Title: "Push", About: pushAbout,
		Tables: []Table{{
			ID: "push", Title: "Push, one job a call", Unit: "jobs/s", Head: "", Chart: bars,
			Columns: []Column{{Name: "1 goroutine"}, {Name: "8 goroutines"}, {Name: "32 goroutines"}},
			Rows:    rows(contenders, results),
		}},
	}
	if ours, theirs := results["Delayer"], results["original (MULTI)"]; ours != nil && theirs != nil {
		section.Targets = append(section.Targets, Target{
			Name: "Push, 32 goroutines, against the original's MULTI", Limit: 2.5, Unit: "×", Got: ours[2].Over(theirs[2]),
		})
	}

	batches := r.pushBatches(ctx, inAnHour(0).Truncate(time.Second))
	results = r.turns(r.pairRepeats, batches)
	section.Tables = append(section.Tables, Table{
		ID: "push-batch", Title: "Push, 1,000 jobs a call", Unit: "jobs/s", Head: "", Chart: bars,
		Columns: []Column{{Name: "one goroutine"}}, Rows: rows(batches, results),
	})
	t := Target{Name: "PushBatch against the raw batch script", Limit: 0.85, Unit: "×"}
	if ours := results["Delayer, PushBatch"]; ours != nil {
		t.Got = ours[0].Over(results[floorBatch][0])
	}
	section.Targets = append(section.Targets, t)
	return section, nil
}

const (
	floorBatch    = "floor: raw script, 250 jobs at a time"
	floorWhole    = "floor: raw script, 1,000 jobs at a time"
	floorPipeline = "floor: plain commands, one pipeline of 1,000 jobs"
)

// pushRate is how many jobs a second so many goroutines push.
func (r *Run) pushRate(ctx context.Context, open func() (Peer, error), goroutines int, due dueOf) (float64, error) {
	if err := r.Redis.clear(); err != nil {
		return 0, err
	}
	p, err := open()
	if err != nil {
		return 0, err
	}
	defer p.Close()
	push := func(i int) error { return p.Push(ctx, int64(i), body(int64(i)), due(i)) }
	if err := crowd(goroutines, 100, push); err != nil { // connections, scripts
		return 0, err
	}
	jobs := r.pushJobs
	if goroutines == 1 {
		jobs /= 4
	}
	return rate(jobs, func() error {
		return crowd(goroutines, jobs, func(i int) error { return push(i + 100) })
	})
}

// pushBatches are the contenders that push pushChunk jobs a call.
func (r *Run) pushBatches(ctx context.Context, due time.Time) []contender {
	measure := func(push func(from int64) error) ([]float64, error) {
		if err := r.Redis.clear(); err != nil {
			return nil, err
		}
		if err := push(0); err != nil {
			return nil, err
		}
		calls := max(5*r.pushJobs/pushChunk, 1)
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
