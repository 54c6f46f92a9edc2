package main

import (
	"context"
	"fmt"
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

func benchHTTP(ctx context.Context, r *Run) Section {
	var rates, waits []contender
	for _, f := range apiRows {
		rates = append(rates, contender{name: f.name, run: func() []float64 { return r.apiRates(f) }})
		if f.server != apiOfNothing {
			waits = append(waits, contender{name: f.name, run: func() []float64 { return r.waitingPolls(f) }})
		}
	}
	rate, waiting := r.turns(r.slowRepeats, rates), r.turns(r.slowRepeats, waits)
	columns := []Column{
		{Name: "/push, 8 connections"}, {Name: "/pop and /finish, 8"}, {Name: "/push, 64"}, {Name: "/pop and /finish, 64"},
		{Name: "/push: process"}, {Name: "Redis"}, {Name: "/pop and /finish: process"}, {Name: "Redis"},
	}
	section := Section{
		Title: "HTTP",
		Tables: []Table{
			{ID: "http", Title: "delay-queue's API", Unit: "jobs/s, then µs of CPU per job with 64 connections", Columns: columns, Rows: rate},
			{
				ID: "http-waiting", Title: count(r.polls) + " requests that wait",
				Columns: []Column{{Name: "connections to Redis"}, {Name: "memory of the process, MB", Digits: 1}, {Name: "of these for the requests", Digits: 1}},
				Rows:    waiting,
			},
		},
	}
	for i, c := range columns[:4] {
		section.Targets = append(section.Targets, atLeast("HTTP, "+c.Name+", against delay-queue's commands", 5,
			rate.of(apiRows[0].name).column(i).Over(rate.of(apiRows[1].name).column(i))))
	}
	ours := waiting.of(apiRows[0].name)
	section.Targets = append(section.Targets,
		atMost("HTTP, connections to Redis with "+count(r.polls)+" waiting requests", 5, "", ours.column(0)),
		atMost("HTTP, memory for "+count(r.polls)+" waiting requests", 150, " MB", ours.column(2)))
	return section
}

// onAPI runs f with such a server on an empty Redis.
func (r *Run) onAPI(row apiRow, f func(server *daemon)) {
	r.Redis.clear()
	server := r.startAPI(row.server)
	defer server.stop()
	f(server)
}

// apiRates returns pushes, and pops with finish, per second with 8 and 64 connections, then the µs of
// CPU time of each in the process and in Redis, with 64.
func (r *Run) apiRates(row apiRow) (rates []float64) {
	var used []float64
	for _, connections := range []int{8, 64} {
		used = nil
		r.onAPI(row, func(server *daemon) {
			callers := dialAPIs(server.addr, connections)
			defer callers.hangUp()
			measure := func(f func(c *caller, n int64) error) {
				cost := r.apiCost(server, r.httpJobs, func() { callers.each(r.httpJobs, f) })
				rates, used = append(rates, cost[0]), append(used, cost[1:]...)
			}
			measure(func(c *caller, n int64) error { return c.push(n, time.Hour) })
			callers.each(r.httpJobs, func(c *caller, n int64) error { return c.push(n, time.Second) })
			r.untilReady(row.ready, r.httpJobs)
			measure(func(c *caller, _ int64) error { return c.popAndFinish() })
		})
	}
	return append(rates, used...)
}

// apiCost measures f: jobs per second, and the CPU time per job of the server and of Redis, in µs.
func (r *Run) apiCost(server *daemon, jobs int, f func()) []float64 {
	var values []float64
	own := cpuOf(jobs, server.cpu, func() { values = r.rateAndCPU(jobs, f) })
	return []float64{values[0], own, values[1]}
}

// untilReady waits until the queue, if any, has that many jobs.
func (r *Run) untilReady(queue string, jobs int) {
	for deadline := time.Now().Add(2 * time.Minute); queue != ""; time.Sleep(50 * time.Millisecond) {
		n := must(redis.Int(r.Redis.do("LLEN", queue), nil))
		if n == jobs {
			return
		}
		if time.Now().After(deadline) {
			check(fmt.Errorf("%d of %d jobs are ready", n, jobs))
		}
	}
}

// waitingPolls returns the cost of waiting requests: connections to Redis, MB of the process, and MB added by
// the requests.
func (r *Run) waitingPolls(row apiRow) (used []float64) {
	r.onAPI(row, func(server *daemon) {
		before := server.residentBytes()
		var gone quitters
		for i := range r.polls {
			c := dialAPI(server.addr)
			defer c.conn.Close()
			go func() {
				c.call("/pop", fmt.Sprintf(`{"topic":"%s%d"}`, topic, i%500))
				gone.Add(1)
			}()
		}
		time.Sleep(apiIdleTimeout + 3*r.settle) // until all wait and the rest is idle
		after := server.residentBytes()
		gone.check()
		used = []float64{r.Redis.connections(), after / 1e6, (after - before) / 1e6}
	})
	return used
}
