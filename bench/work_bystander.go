package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
)

func benchBystander(ctx context.Context, r *Run) (Section, error) {
	if err := errors.Join(r.Redis.clear(), r.Redis.seed(0, r.million, 8, past(), 0), r.Redis.keep()); err != nil {
		return Section{}, err
	}
	pinged := func(name string, move func() error) contender {
		return contender{name: name, run: func() ([]float64, error) {
			if err := r.Redis.restore(); err != nil {
				return nil, err
			}
			pings, took, err := r.pingWhile(move)
			if err != nil {
				return nil, err
			}
			return []float64{
				milliseconds(quantile(pings, 0.5)), milliseconds(quantile(pings, 0.99)), milliseconds(quantile(pings, 0.999)),
				milliseconds(quantile(pings, 1)), float64(r.million) / took.Seconds(),
			}, nil
		}}
	}
	contenders := []contender{
		pinged("nothing moved", func() error {
			time.Sleep(time.Duration(r.million) * 4 * time.Microsecond)
			return nil
		}),
		pinged("Delayer", func() error {
			_, err := r.oursMoves(ctx, r.million, 0)
			return err
		}),
		pinged("floor: one script, 1,000 per call", func() error {
			_, err := r.floorMoves(r.million, 1000, true)
			return err
		}),
		pinged("floor: one script, 7,000 per call", func() error {
			_, err := r.floorMoves(r.million, 7000, true)
			return err
		}),
		pinged("no limit", func() error {
			_, err := r.floorMoves(r.million, -1, false)
			return err
		}),
	}
	contenders[3].repeats, contenders[4].repeats = 1, 1
	results := r.turns(r.slowRepeats, contenders)
	if o := results["nothing moved"]; o != nil {
		o[4] = nil
	}
	_, worst := results["Delayer"].column(3).Spread()
	return Section{
		Title: "A bystander's PING",
		Tables: []Table{{
			ID: "bystander", Title: fmt.Sprintf("PING while %s jobs are moved, 8 topics", count(r.million)),
			Columns: []Column{{Name: "p50, ms", Digits: 2}, {Name: "p99, ms", Digits: 2}, {Name: "p99.9, ms", Digits: 2}, {Name: "worst, ms", Digits: 2}, {Name: "jobs/s"}},
			Rows:    rows(contenders, results),
		}},
		Targets: []Target{{
			Name:   fmt.Sprintf("Bystander's PING p99.9 with %s due (worst PING of all repeats: %s ms)", count(r.million), number(worst, 2)),
			AtMost: true, Limit: 5, Unit: " ms", Got: results["Delayer"].column(2),
		}},
	}, nil
}

// pingWhile sends PINGs until move returns.
func (r *Run) pingWhile(move func() error) (pings []time.Duration, took time.Duration, err error) {
	conn, err := redis.Dial("tcp", r.Redis.addr)
	if err != nil {
		return nil, 0, err
	}
	defer conn.Close()
	done := make(chan error, 1)
	started := time.Now()
	go func() { done <- move() }()
	for {
		select {
		case err := <-done:
			return pings, time.Since(started), err
		default:
		}
		sent := time.Now()
		if _, err := conn.Do("PING"); err != nil {
			return nil, 0, err
		}
		pings = append(pings, time.Since(sent))
		time.Sleep(200 * time.Microsecond)
	}
}
