package main

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"
)

// stages are the stages of a job's life for one contender.
type stages struct {
	name             string
	push, move, take func()
}

func benchCPU(ctx context.Context, r *Run) Section {
	jobs := r.cpuJobs
	due := time.Now().Add(time.Hour).Truncate(time.Second)
	ours := r.openClient()
	defer ours.Close()

	contenders := r.cpuOfScripts(due)
	for i, name := range []string{"Delayer, 1 goroutine", "Delayer, 32 goroutines", "Delayer, PushBatch of 1,000 and Fetch"} {
		contenders = append(contenders, contender{name: name, run: func() []float64 {
			l := &life{at: r.onOne(1), client: ours, way: ways[i], jobs: jobs, due: due}
			return r.cpuOfStages(stages{push: func() { l.push(ctx) }, move: func() { l.move(ctx) }, take: func() { l.take(ctx) }})
		}})
	}
	theirs := len(contenders)
	for _, m := range others() {
		c := r.alone(ctx, m.name, m.open, r.cpuOfPeer)
		c.repeats = 2
		contenders = append(contenders, c)
	}
	rows := r.turns(r.repeats, contenders)
	for _, c := range contenders[theirs:] {
		if row := rows.of(c.name); row.Cells != nil {
			row.Cells[1], row.Cells[2] = nil, nil
		}
	}
	return Section{
		Title: "Redis's CPU time",
		Tables: []Table{{
			ID: "cpu", Title: "CPU time per job", Unit: "µs",
			Columns: []Column{{Name: "push", Digits: 1}, {Name: "move", Digits: 1}, {Name: "take", Digits: 1}, {Name: "move + take", Digits: 1}, {Name: "sum", Digits: 1}},
			Rows:    rows,
		}},
	}
}

// cpuOfScripts returns the contenders without a client: the raw scripts of Delayer, and those of the original.
func (r *Run) cpuOfScripts(due time.Time) (contenders []contender) {
	jobs := r.cpuJobs
	each := func(goroutines int, f func(conn redis.Conn, i int) error) func() {
		return func() {
			crowd(goroutines, jobs, func(i int) error {
				conn := r.Redis.Pool.Get()
				defer conn.Close()
				return f(conn, i)
			})
		}
	}
	chunks := func(f func(conn redis.Conn, from, n int)) func() {
		return func() {
			conn := r.Redis.Pool.Get()
			defer conn.Close()
			inChunks(jobs, func(from, n int) { f(conn, from, n) })
		}
	}
	floorMove := func() { r.floorMoves(jobs, 1000, true) }
	push := func(conn redis.Conn, i int) error { return floorPushJobs(conn, i, 1, due) }
	take := func(conn redis.Conn, _ int) error { return floorTakeOne(conn) }
	for _, s := range []stages{
		{"floor: raw scripts, 1 goroutine", each(1, push), floorMove, each(1, take)},
		{"floor: raw scripts, 32 goroutines", each(32, push), floorMove, each(32, take)},
		{
			"floor: raw scripts, 1,000 jobs per call",
			chunks(func(conn redis.Conn, from, n int) { check(floorPushJobs(conn, from, n, due)) }), floorMove,
			chunks(func(conn redis.Conn, _, n int) { must(floorTake(conn, n)) }),
		},
		{
			ofOriginals,
			each(32, func(conn redis.Conn, i int) error { return originalPush(conn, id(int64(i)), body(int64(i)), due) }),
			func() { r.floorMoves(jobs, 1000, false) },
			each(32, func(conn redis.Conn, _ int) error { return originalPop(conn) }),
		},
	} {
		contenders = append(contenders, contender{name: s.name, run: func() []float64 { return r.cpuOfStages(s) }})
	}
	return contenders
}

const ofOriginals = "original's clients, 32 goroutines; moved by a plain pipeline"

func (r *Run) cpuOfStages(s stages) []float64 {
	r.Redis.clear()
	pushed := cpuOf(r.cpuJobs, r.Redis.cpu, s.push)
	r.onOne(1).makeDue()
	moved := cpuOf(r.cpuJobs, r.Redis.cpu, s.move)
	taken := cpuOf(r.cpuJobs, r.Redis.cpu, s.take)
	return []float64{pushed, moved, taken, moved + taken, pushed + moved + taken}
}

// cpuOfPeer measures another queue, which moves jobs while they are consumed.
func (r *Run) cpuOfPeer(ctx context.Context, p Peer) []float64 {
	jobs := r.cpuJobs
	cpu := func() time.Duration { return r.serverCPU(p) }
	due := nextSecond(time.Now().Add(time.Duration(jobs)*250*time.Microsecond + 500*time.Millisecond))
	pushed := cpuOf(jobs, cpu, func() {
		crowd(32, jobs, func(i int) error { return p.Push(ctx, int64(i), body(int64(i)), p.Round(time.Now(), due)) })
	})
	time.Sleep(time.Until(due.Add(100 * time.Millisecond)))
	var came arrivals
	consumed := cpuOf(jobs, cpu, func() {
		p.Consume(ctx, consumers, came.add)
		came.drain(jobs, 2*time.Minute)
	})
	return []float64{pushed, 0, 0, consumed, pushed + consumed}
}
