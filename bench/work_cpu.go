package main

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
)

const cpuAbout = `Processor time of the Redis process (or of beanstalkd, or of Faktory and its Redis), divided by the number of jobs, for each stage of a job's life: pushed, moved when due,
taken. It counts what one Redis can carry when it is the bottleneck, apart from the clients' own costs. The other queues move while they are consumed, so there it is one
number; their jobs are pushed by 32 goroutines and consumed by 8. One goroutine at a time costs Redis more, since it then sleeps and wakes for every command.`

func benchCPU(ctx context.Context, r *Run) (Section, error) {
	jobs := r.cpuJobs
	due := time.Now().Add(time.Hour).Truncate(time.Second)
	stages := func(name string, push, move, take func() error) contender {
		return contender{name: name, run: func() ([]float64, error) {
			if err := r.Redis.clear(); err != nil {
				return nil, err
			}
			pushed, err := r.cpuOf(push)
			if err != nil {
				return nil, err
			}
			// All are due now.
			if _, err := r.Redis.do("ZUNIONSTORE", poolKey, 1, poolKey, "WEIGHTS", 0); err != nil {
				return nil, err
			}
			moved, err := r.cpuOf(move)
			if err != nil {
				return nil, err
			}
			taken, err := r.cpuOf(take)
			return []float64{pushed, moved, taken, moved + taken, pushed + moved + taken}, err
		}}
	}
	conn := r.Redis.Pool.Get()
	defer conn.Close()
	ours := client.OpenPool(client.PoolOptions{Addr: r.Redis.addr})
	defer ours.Close()
	floor := &floorPeer{r.Redis}
	floorMove := func() error {
		_, err := r.floorMoves(jobs, 1000, true)
		return err
	}
	oursMove := func() error {
		_, err := r.oursMoves(ctx, jobs, 0)
		return err
	}
	pooled := func(f func(redis.Conn) error) func(int) error {
		return func(int) error {
			conn := r.Redis.Pool.Get()
			defer conn.Close()
			return f(conn)
		}
	}
	single := func(goroutines int) (push, take func() error) {
		return func() error {
				return crowd(goroutines, jobs, func(i int) error {
					_, err := ours.PushAt(ctx, client.Message{ID: id(int64(i)), Topic: topic, Body: body(int64(i))}, due)
					return err
				})
			}, func() error {
				return crowd(goroutines, jobs, func(int) error {
					_, err := ours.BPop(ctx, time.Second, topic)
					return err
				})
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
	nothing := func(string) {}
	push1, take1 := single(1)
	push32, take32 := single(32)
	floorSingle := func(goroutines int) (push, take func() error) {
		return func() error {
				return crowd(goroutines, jobs, func(i int) error { return floor.Push(ctx, int64(i), body(int64(i)), due) })
			}, func() error {
				return crowd(goroutines, jobs, pooled(func(conn redis.Conn) error {
					_, err := redis.Strings(floorTake.Do(conn, readyPrefix+topic, bucketPrefix))
					return err
				}))
			}
	}
	floorPush1, floorTake1 := floorSingle(1)
	floorPush32, floorTake32 := floorSingle(32)
	contenders := []contender{
		stages("floor: raw scripts, 1 goroutine", floorPush1, floorMove, floorTake1),
		stages("floor: raw scripts, 32 goroutines", floorPush32, floorMove, floorTake32),
		stages("floor: raw scripts, 1,000 jobs a call",
			inChunks(func(from, n int64) error { return floorPushJobs(conn, from, n, due) }), floorMove,
			inChunks(func(_, n int64) error {
				_, err := floorTakeJobs(conn, int(n), nothing)
				return err
			})),
		stages("original's clients, 32 goroutines; moved by a plain pipeline",
			func() error {
				return crowd(32, jobs, func(i int) error {
					return pooled(func(conn redis.Conn) error { return originalPush(conn, id(int64(i)), body(int64(i)), due) })(i)
				})
			},
			func() error {
				_, err := r.floorMoves(jobs, 1000, false)
				return err
			},
			func() error {
				return crowd(32, jobs, pooled(func(conn redis.Conn) error {
					_, err := originalPop(conn)
					return err
				}))
			}),
		stages("Delayer, 1 goroutine", push1, oursMove, take1),
		stages("Delayer, 32 goroutines", push32, oursMove, take32),
	}
	contenders = append(contenders, stages("Delayer, PushBatch and PopBatch of 1,000",
		inChunks(func(from, n int64) error { return pushBatch(ctx, ours, from, n, due) }), oursMove,
		inChunks(func(_, n int64) error {
			for n > 0 {
				list, err := ours.PopBatch(ctx, topic, int(n))
				if err != nil || len(list) == 0 {
					return errors.Join(err, errIf(len(list) == 0, errEmpty))
				}
				n -= int64(len(list))
			}
			return nil
		})))
	for _, m := range r.others() {
		if m.slow {
			r.note("%s was left out: it would take minutes.", m.name)
			continue
		}
		contenders = append(contenders, contender{name: m.name, repeats: 2, run: func() ([]float64, error) { return r.peerCPU(ctx, m, jobs) }})
	}
	results := r.turns(r.repeats, contenders)
	list := rows(contenders, results)
	for i := range list {
		for _, m := range r.others() {
			if list[i].Name == m.name {
				list[i].Cells[1], list[i].Cells[2] = nil, nil
			}
		}
	}
	return Section{
		Title: "Redis's processor time", About: cpuAbout,
		Tables: []Table{{
			ID: "cpu", Title: "Processor time a job", Unit: "µs", Head: "", Chart: bars,
			Columns: []Column{{Name: "push", Digits: 1}, {Name: "move", Digits: 1}, {Name: "take", Digits: 1}, {Name: "move + take", Digits: 1}, {Name: "sum", Digits: 1}},
			Rows:    list,
		}},
	}, nil
}

func errIf(condition bool, err error) error {
	if condition {
		return err
	}
	return nil
}

// cpuOf is Redis's processor time for f, in µs a job.
func (r *Run) cpuOf(f func() error) (float64, error) { return cpuOf(r.cpuJobs, r.Redis.cpu, f) }

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

// cpuTeller is a Peer with a server of its own.
type cpuTeller interface {
	cpu() (time.Duration, error)
}

func (r *Run) peerCPU(ctx context.Context, m maker, jobs int) ([]float64, error) {
	if err := r.Redis.clear(); err != nil {
		return nil, err
	}
	p, err := m.open(r)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cpu := r.Redis.cpu
	if t, ok := p.(cpuTeller); ok {
		cpu = t.cpu
	}
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
