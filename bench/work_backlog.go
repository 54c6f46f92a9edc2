package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
)

// freshTopic is the topic of jobs that fall due during a backlog.
const freshTopic = "fresh"

const floorOf1000 = "floor: one script, 1,000 per call"

// overdue seeds the backlog that contenders restore.
func (r *Run) overdue(jobs, topics int) {
	r.Redis.clear()
	r.Redis.seed(0, jobs, topics, 1, 0)
	r.Redis.keep()
}

func benchBystander(ctx context.Context, r *Run) Section {
	r.overdue(r.million, 8)
	pinged := func(name string, move func()) contender {
		return contender{name: name, run: func() []float64 {
			r.Redis.restore()
			pings, took := r.pingWhile(move)
			var values []float64
			for _, q := range []float64{0.5, 0.99, 0.999, 1} {
				values = append(values, milliseconds(quantile(pings, q)))
			}
			return append(values, float64(r.million)/took.Seconds())
		}}
	}
	floor := func(batch int, script bool) func() { return func() { r.floorMoves(r.million, batch, script) } }
	contenders := []contender{
		pinged("nothing moved", func() { time.Sleep(time.Duration(r.million) * 4 * time.Microsecond) }),
		pinged("Delayer", func() { r.oursMoves(ctx, r.million, 0) }),
		pinged(floorOf1000, floor(1000, true)),
		pinged("floor: one script, 7,000 per call", floor(7000, true)),
		pinged("no limit", floor(-1, false)),
	}
	contenders[3].repeats, contenders[4].repeats = 1, 1
	rows := r.turns(r.slowRepeats, contenders)
	if none := rows.of("nothing moved"); none.Cells != nil {
		none.Cells[4] = nil
	}
	_, worst := rows.of("Delayer").column(3).Spread()
	return Section{
		Title: "A bystander's PING",
		Tables: []Table{{
			ID: "bystander", Title: fmt.Sprintf("PING while %s jobs are moved, 8 topics", count(r.million)),
			Columns: []Column{{Name: "p50, ms", Digits: 2}, {Name: "p99, ms", Digits: 2}, {Name: "p99.9, ms", Digits: 2}, {Name: "worst, ms", Digits: 2}, {Name: "jobs/s"}},
			Rows:    rows,
		}},
		Targets: []Target{atMost(
			fmt.Sprintf("Bystander's PING p99.9 with %s due (worst PING of all repeats: %s ms)", count(r.million), number(worst, 2)),
			5, " ms", rows.of("Delayer").column(2))},
	}
}

// pingWhile sends PINGs until move returns.
func (r *Run) pingWhile(move func()) (pings []time.Duration, took time.Duration) {
	conn := must(redis.Dial("tcp", r.Redis.addr))
	defer conn.Close()
	done := make(chan error, 1)
	started := time.Now()
	go func() { done <- attempt(move) }()
	for {
		select {
		case err := <-done:
			check(err)
			return pings, time.Since(started)
		default:
		}
		sent := time.Now()
		must(conn.Do("PING"))
		pings = append(pings, time.Since(sent))
		time.Sleep(200 * time.Microsecond)
	}
}

func benchCatchUp(ctx context.Context, r *Run) Section {
	r.overdue(r.million, 8)
	ours := func() time.Duration { return r.oursMoves(ctx, r.million, 0) }
	floor := func() time.Duration { return r.floorMoves(r.million, 1000, true) }
	return Section{
		Title: "Catching up",
		Tables: []Table{{
			ID: "catchup", Title: fmt.Sprintf("%s jobs are overdue, 500 a second fall due", count(r.million)),
			Columns: []Column{{Name: "backlog, jobs/s"}, {Name: "falling due now: late p50, ms", Digits: 1}, {Name: "p99, ms", Digits: 1}, {Name: "max, ms", Digits: 1}},
			Rows: r.turns(r.slowRepeats, []contender{
				{name: "Delayer", run: func() []float64 { return r.catchUp(ctx, ours) }},
				{name: floorOf1000, run: func() []float64 { return r.catchUp(ctx, floor) }},
			}),
		}},
	}
}

// catchUp restores the backlog and lets jobs fall due while move works it off. It returns the backlog's jobs
// per second and the others' lateness in ms.
func (r *Run) catchUp(ctx context.Context, move func() time.Duration) []float64 {
	r.Redis.restore()
	c := r.openClient()
	defer c.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	var came arrivals
	var due []time.Time // of the pushed jobs
	var failure error
	var pushing sync.WaitGroup
	stop := make(chan struct{})
	pushing.Go(func() {
		for tick := time.Tick(2 * time.Millisecond); failure == nil; {
			select {
			case <-stop:
				return
			case <-tick:
			}
			at := time.Now().Add(50 * time.Millisecond).Truncate(time.Millisecond)
			_, failure = c.PushAt(ctx, client.Message{Topic: freshTopic, Body: body(at.UnixMicro())}, at)
			due = append(due, at)
		}
	})
	go consume(ctx, c, freshTopic, 0, came.add)
	took := move()
	moved := time.Now().Add(-50 * time.Millisecond)
	close(stop)
	pushing.Wait()
	check(failure)
	due = slices.DeleteFunc(due, func(at time.Time) bool { return at.After(moved) })
	came.wait(max(len(due), 1), 10*time.Second)
	return append([]float64{float64(r.million) / took.Seconds()}, came.lateness()...)
}
