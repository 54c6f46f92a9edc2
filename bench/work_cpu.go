package main

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
)

// stages are the stages of a job's life for one contender.
type stages struct {
	name             string
	push, move, take func() error
}

func benchCPU(ctx context.Context, r *Run) (Section, error) {
	jobs := r.cpuJobs
	due := time.Now().Add(time.Hour).Truncate(time.Second)
	ours := client.OpenPool(client.PoolOptions{Addr: r.Redis.addr})
	defer ours.Close()
	floor := &floorPeer{redis: r.Redis}
	conn := r.Redis.Pool.Get()
	defer conn.Close()

	each := func(goroutines int, f func(i int) error) func() error {
		return func() error { return crowd(goroutines, jobs, f) }
	}
	pooled := func(f func(conn redis.Conn, i int) error) func(int) error {
		return func(i int) error {
			conn := r.Redis.Pool.Get()
			defer conn.Close()
			return f(conn, i)
		}
	}
	inChunks := func(f func(from, n int64) error) func() error {
		return func() error {
			for from := 0; from < jobs; from += pushChunk {
				if err := f(int64(from), int64(min(pushChunk, jobs-from))); err != nil {
					return err
				}
			}
			return nil
		}
	}
	moveBy := func(f func() (time.Duration, error)) func() error {
		return func() error {
			_, err := f()
			return err
		}
	}
	floorMove := moveBy(func() (time.Duration, error) { return r.floorMoves(jobs, 1000, true) })
	pipelineMove := moveBy(func() (time.Duration, error) { return r.floorMoves(jobs, 1000, false) })
	oursMove := moveBy(func() (time.Duration, error) { return r.oursMoves(ctx, jobs, 0) })
	floorPush := func(i int) error { return floor.Push(ctx, int64(i), body(int64(i)), due) }
	floorTake := pooled(func(conn redis.Conn, _ int) error {
		_, err := redis.Strings(floorTake.Do(conn, readyPrefix+topic, bucketPrefix))
		return err
	})
	oursPush := func(i int) error {
		_, err := ours.PushAt(ctx, client.Message{ID: id(int64(i)), Topic: topic, Body: body(int64(i))}, due)
		return err
	}
	oursTake := func(int) error {
		_, err := ours.BPop(ctx, time.Second, topic)
		return err
	}
	var contenders []contender
	for _, s := range []stages{
		{"floor: raw scripts, 1 goroutine", each(1, floorPush), floorMove, each(1, floorTake)},
		{"floor: raw scripts, 32 goroutines", each(32, floorPush), floorMove, each(32, floorTake)},
		{
			"floor: raw scripts, 1,000 jobs per call",
			inChunks(func(from, n int64) error { return floorPushJobs(conn, from, n, due) }), floorMove,
			inChunks(func(_, n int64) error {
				_, err := floorTakeJobs(conn, int(n), func(string) {})
				return err
			}),
		},
		{
			"original's clients, 32 goroutines; moved by a plain pipeline",
			each(32, pooled(func(conn redis.Conn, i int) error { return originalPush(conn, id(int64(i)), body(int64(i)), due) })), pipelineMove,
			each(32, pooled(func(conn redis.Conn, _ int) error {
				_, err := originalPop(conn)
				return err
			})),
		},
		{"Delayer, 1 goroutine", each(1, oursPush), oursMove, each(1, oursTake)},
		{"Delayer, 32 goroutines", each(32, oursPush), oursMove, each(32, oursTake)},
		{
			"Delayer, PushBatch and PopBatch of 1,000",
			inChunks(func(from, n int64) error { return pushBatch(ctx, ours, from, n, due) }), oursMove,
			inChunks(func(_, n int64) error {
				for n > 0 {
					list, err := ours.PopBatch(ctx, topic, int(n))
					if err != nil {
						return err
					}
					if len(list) == 0 {
						return errEmpty
					}
					n -= int64(len(list))
				}
				return nil
			}),
		},
	} {
		contenders = append(contenders, contender{name: s.name, run: func() ([]float64, error) { return r.cpuOfStages(s) }})
	}
	peers := map[string]bool{}
	for _, m := range r.others() {
		if m.slow {
			r.note("%s was left out: it would take minutes.", m.name)
			continue
		}
		peers[m.name] = true
		contenders = append(contenders, contender{name: m.name, repeats: 2, run: func() ([]float64, error) { return r.onEmpty(ctx, r.opener(m), r.cpuOfPeer) }})
	}
	list := rows(contenders, r.turns(r.repeats, contenders))
	for _, row := range list {
		if peers[row.Name] {
			row.Cells[1], row.Cells[2] = nil, nil
		}
	}
	return Section{
		Title: "Redis's CPU time",
		Tables: []Table{{
			ID: "cpu", Title: "CPU time per job", Unit: "µs", Chart: bars,
			Columns: []Column{{Name: "push", Digits: 1}, {Name: "move", Digits: 1}, {Name: "take", Digits: 1}, {Name: "move + take", Digits: 1}, {Name: "sum", Digits: 1}},
			Rows:    list,
		}},
	}, nil
}

func (r *Run) cpuOfStages(s stages) ([]float64, error) {
	if err := r.Redis.clear(); err != nil {
		return nil, err
	}
	pushed, err := cpuOf(r.cpuJobs, r.Redis.cpu, s.push)
	if err != nil {
		return nil, err
	}
	// Makes all jobs due now.
	if _, err := r.Redis.do("ZUNIONSTORE", poolKey, 1, poolKey, "WEIGHTS", 0); err != nil {
		return nil, err
	}
	moved, err := cpuOf(r.cpuJobs, r.Redis.cpu, s.move)
	if err != nil {
		return nil, err
	}
	taken, err := cpuOf(r.cpuJobs, r.Redis.cpu, s.take)
	return []float64{pushed, moved, taken, moved + taken, pushed + moved + taken}, err
}

// cpuOf returns the CPU time of f in µs per job.
func cpuOf(jobs int, cpu func() (time.Duration, error), f func() error) (float64, error) {
	before, err := cpu()
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := cpu()
	return float64((after - before).Nanoseconds()) / 1000 / float64(jobs), err
}

// cpuOfPeer measures another queue, which moves jobs while they are consumed.
func (r *Run) cpuOfPeer(ctx context.Context, p Peer) ([]float64, error) {
	jobs := r.cpuJobs
	cpu := func() (time.Duration, error) { return r.serverCPU(p) }
	due := nextSecond(time.Now().Add(time.Duration(jobs)*250*time.Microsecond + 500*time.Millisecond))
	pushed, err := cpuOf(jobs, cpu, func() error {
		return crowd(32, jobs, func(i int) error { return p.Push(ctx, int64(i), body(int64(i)), p.Round(time.Now(), due)) })
	})
	if err != nil {
		return nil, err
	}
	time.Sleep(time.Until(due.Add(100 * time.Millisecond)))
	drained := newDrain(jobs)
	consumed, err := cpuOf(jobs, cpu, func() error {
		if err := p.Consume(ctx, consumers, drained.take); err != nil {
			return err
		}
		return drained.wait(2 * time.Minute)
	})
	return []float64{pushed, 0, 0, consumed, pushed + consumed}, err
}
