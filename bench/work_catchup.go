package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mix-basic/delayer/client"
)

// freshTopic is the topic of jobs that fall due during a backlog.
const freshTopic = "fresh"

func benchCatchUp(ctx context.Context, r *Run) (Section, error) {
	if err := errors.Join(r.Redis.clear(), r.Redis.seed(0, r.million, 8, past(), 0), r.Redis.keep()); err != nil {
		return Section{}, err
	}
	ours := func() (time.Duration, error) { return r.oursMoves(ctx, r.million, 0) }
	contenders := []contender{
		{name: "Delayer", run: func() ([]float64, error) { return r.catchUp(ctx, ours) }},
		{name: "Delayer, nothing falls due meanwhile", run: func() ([]float64, error) {
			if err := r.Redis.restore(); err != nil {
				return nil, err
			}
			took, err := ours()
			return []float64{float64(r.million) / took.Seconds(), 0, 0, 0}, err
		}},
		{name: "floor: one script, 1,000 per call", run: func() ([]float64, error) {
			return r.catchUp(ctx, func() (time.Duration, error) {
				conn := r.Redis.Pool.Get()
				defer conn.Close()
				started := time.Now()
				_, err := floorMoveAll(conn, 1000)
				return time.Since(started), err
			})
		}},
	}
	results := r.turns(r.slowRepeats, contenders)
	if o := results[contenders[1].name]; o != nil {
		o[1], o[2], o[3] = nil, nil, nil
	}
	return Section{
		Title: "Catching up",
		Tables: []Table{{
			ID: "catchup", Title: fmt.Sprintf("%s jobs are overdue, 500 a second fall due", count(r.million)),
			Columns: []Column{{Name: "backlog, jobs/s"}, {Name: "falling due now: late p50, ms", Digits: 1}, {Name: "p99, ms", Digits: 1}, {Name: "max, ms", Digits: 1}},
			Rows:    rows(contenders, results),
		}},
	}, nil
}

// catchUp restores the backlog and lets jobs fall due while move works it off. It returns the backlog's jobs
// per second and the others' lateness in ms.
func (r *Run) catchUp(ctx context.Context, move func() (time.Duration, error)) ([]float64, error) {
	if err := r.Redis.restore(); err != nil {
		return nil, err
	}
	c := client.OpenPool(client.PoolOptions{Addr: r.Redis.addr})
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
	took, err := move()
	moved := time.Now().Add(-50 * time.Millisecond)
	close(stop)
	pushing.Wait()
	if err := errors.Join(err, failure); err != nil {
		return nil, err
	}
	due = slices.DeleteFunc(due, func(at time.Time) bool { return at.After(moved) })
	if err := came.wait(max(len(due), 1), 10*time.Second); err != nil {
		return nil, err
	}
	return append([]float64{float64(r.million) / took.Seconds()}, came.lateness()...), nil
}
