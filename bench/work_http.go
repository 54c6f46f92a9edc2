package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// apiRow is one of the servers, with the name of its row.
type apiRow struct {
	name, server string
	ready        string // key of the ready queue
}

var apiRows = []apiRow{
	{"Delayer", apiOfDelayer, readyPrefix + topic},
	{"delay-queue's commands", apiOfDelayQueue, delayQueueReady + topic},
	{"floor: net/http, without Redis", apiOfNothing, ""},
}

func benchHTTP(ctx context.Context, r *Run) (Section, error) {
	var rates, waits []contender
	for _, f := range apiRows {
		rates = append(rates, contender{name: f.name, run: func() ([]float64, error) { return r.apiRates(f) }})
		if f.server == apiOfNothing {
			continue
		}
		waits = append(waits, contender{name: f.name, run: func() ([]float64, error) { return r.waitingPolls(f) }})
	}
	rate, waiting := r.turns(r.slowRepeats, rates), r.turns(r.slowRepeats, waits)
	section := Section{
		Title: "HTTP",
		Tables: []Table{
			{
				ID: "http", Title: "delay-queue's API", Unit: "jobs/s, then µs of CPU per job with 64 connections", Chart: bars, Drawn: 4,
				Columns: []Column{
					{Name: "/push, 8 connections"}, {Name: "/pop and /finish, 8"}, {Name: "/push, 64"}, {Name: "/pop and /finish, 64"},
					{Name: "/push: process"}, {Name: "Redis"}, {Name: "/pop and /finish: process"}, {Name: "Redis"},
				},
				Rows: rows(rates, rate),
			},
			{
				ID: "http-waiting", Title: count(r.polls) + " requests that wait",
				Columns: []Column{{Name: "connections to Redis"}, {Name: "memory of the process, MB", Digits: 1}, {Name: "of these for the requests", Digits: 1}},
				Rows:    rows(waits, waiting),
			},
		},
	}
	ours, theirs := rate[apiRows[0].name], rate[apiRows[1].name]
	for i, c := range section.Tables[0].Columns[:4] {
		section.Targets = append(section.Targets, Target{Name: "HTTP, " + c.Name + ", against delay-queue's commands", Limit: 5, Unit: "×", Got: ours.column(i).Over(theirs.column(i))})
	}
	section.Targets = append(section.Targets,
		Target{Name: "HTTP, connections to Redis with " + count(r.polls) + " waiting requests", AtMost: true, Limit: 5, Got: waiting[apiRows[0].name].column(0)},
		Target{Name: "HTTP, memory for " + count(r.polls) + " waiting requests", AtMost: true, Limit: 150, Unit: " MB", Got: waiting[apiRows[0].name].column(2)})
	return section, nil
}

// onAPI runs f with such a server on an empty Redis.
func (r *Run) onAPI(row apiRow, f func(server *daemon) error) error {
	if err := r.Redis.clear(); err != nil {
		return err
	}
	server, err := r.startAPI(os.Args[0], row.server)
	if err != nil {
		return err
	}
	defer server.stop()
	return f(server)
}

// apiRates returns pushes, and pops with finish, per second with 8 and 64 connections, then the µs of
// CPU time of each in the process and in Redis, with 64.
func (r *Run) apiRates(row apiRow) (rates []float64, err error) {
	var used []float64
	for _, connections := range []int{8, 64} {
		used = nil
		err := r.onAPI(row, func(server *daemon) error {
			callers, err := dialAPIs(server.addr, connections)
			if err != nil {
				return err
			}
			defer callers.hangUp()
			measure := func(f func(c *caller, n int64) error) error {
				cost, err := r.apiCost(server, r.httpJobs, func() error {
					perSecond, err := rate(r.httpJobs, func() error { return callers.each(r.httpJobs, f) })
					rates = append(rates, perSecond)
					return err
				})
				used = append(used, cost...)
				return err
			}
			if err := measure(func(c *caller, n int64) error { return c.push(n, time.Hour) }); err != nil {
				return err
			}
			if err := callers.each(r.httpJobs, func(c *caller, n int64) error { return c.push(n, time.Second) }); err != nil {
				return err
			}
			if err := r.untilReady(row.ready, r.httpJobs); err != nil {
				return err
			}
			return measure(func(c *caller, _ int64) error { return c.popAndFinish() })
		})
		if err != nil {
			return nil, err
		}
	}
	return append(rates, used...), nil
}

// apiCost returns the CPU time per job during f, of the server and of Redis, in µs.
func (r *Run) apiCost(server *daemon, jobs int, f func() error) ([]float64, error) {
	var spent [2]time.Duration
	for _, sign := range []time.Duration{-1, 1} {
		own, err := server.cpu()
		if err != nil {
			return nil, err
		}
		redis, err := r.Redis.cpu()
		if err != nil {
			return nil, err
		}
		spent[0] += sign * own
		spent[1] += sign * redis
		if sign < 0 {
			if err := f(); err != nil {
				return nil, err
			}
		}
	}
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(jobs) }
	return []float64{each(spent[0]), each(spent[1])}, nil
}

// untilReady waits until the queue, if any, has that many jobs.
func (r *Run) untilReady(queue string, jobs int) error {
	if queue == "" {
		return nil
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		n, err := redis.Int(r.Redis.do("LLEN", queue))
		if err != nil || n == jobs {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d jobs are ready", n, jobs)
		}
	}
}

// waitingPolls returns the cost of waiting requests: connections to Redis, MB of the process, and MB added by
// the requests.
func (r *Run) waitingPolls(row apiRow) (used []float64, err error) {
	err = r.onAPI(row, func(server *daemon) error {
		before, err := server.residentBytes()
		if err != nil {
			return err
		}
		var gone atomic.Int64
		for i := range r.polls {
			c, err := dialAPI(server.addr)
			if err != nil {
				return err
			}
			defer c.conn.Close()
			go func() {
				c.call("/pop", fmt.Sprintf(`{"topic":"%s%d"}`, topic, i%500))
				gone.Add(1)
			}()
		}
		time.Sleep(apiIdleTimeout + 3*r.settle) // until all wait and the rest is idle
		after, err := server.residentBytes()
		if err != nil {
			return err
		}
		connections, err := r.Redis.info("connected_clients")
		if n := gone.Load(); n > 0 {
			err = errors.Join(err, fmt.Errorf("%d requests wait no more", n))
		}
		used = []float64{connections - float64(r.Redis.Pool.ActiveCount()), after / 1e6, (after - before) / 1e6}
		return err
	})
	return used, err
}
