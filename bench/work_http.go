package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/gomodule/redigo/redis"
)

func benchHTTP(_ context.Context, r *Run) Section {
	rows := r.turns(r.slowRepeats, []contender{{name: "Delayer", run: r.waitingPolls}})
	ours := rows.of("Delayer")
	return Section{
		Title: "HTTP",
		Tables: []Table{{
			ID: "http-waiting", Title: count(r.polls) + " requests that wait",
			Columns: []Column{{Name: "connections to Redis"}, {Name: "memory of the process, MB", Digits: 1}, {Name: "of these for the requests", Digits: 1}},
			Rows:    rows,
		}},
		Targets: []Target{
			atMost("HTTP, connections to Redis with "+count(r.polls)+" waiting requests", 5, "", ours.column(0)),
			atMost("HTTP, memory for "+count(r.polls)+" waiting requests", 150, " MB", ours.column(2)),
		},
	}
}

// waitingPolls returns the cost of waiting requests: connections to Redis, MB of the process, and MB added by
// the requests.
func (r *Run) waitingPolls() []float64 {
	r.Redis.clear()
	server := r.startAPI(apiOfDelayer)
	defer server.stop()
	before := server.residentBytes()
	all := dialAPIs(server.addr, r.polls)
	defer all.hangUp()
	var gone quitters
	for i, c := range all {
		go func() {
			c.call("/pop", fmt.Sprintf(`{"topic":"%s%d"}`, topic, i%500))
			gone.Add(1)
		}()
	}
	time.Sleep(apiIdleTimeout + 3*r.settle) // until all wait and the rest is idle
	after := server.residentBytes()
	gone.check()
	return []float64{r.Redis.connections(), after / 1e6, (after - before) / 1e6}
}

// delayQueuePath is the program of the real delay-queue server.
var delayQueuePath string

var delayQueueRoutes = []string{"push", "pop", "finish"}

// turnServer is one of the servers that take turns.
type turnServer struct {
	name    string
	start   func(*Run) *daemon
	ready   string // key of the ready queue; "" for a server without Redis, which only finishes
	run     *Run   // with its own Redis
	server  *daemon
	callers callers
	ids     []string     // of the popped jobs
	got     [3][3]Sample // by route: jobs/s, and µs of CPU per job of the server and of Redis
}

func benchDelayQueue(_ context.Context, r *Run) Section {
	if delayQueuePath == "" && !r.oursOnly {
		check(errors.New("-delay-queue must name the program of a delay-queue server"))
	}
	section := Section{Title: "delay-queue's API and its server"}
	var measured [3]grid
	for _, connections := range []int{1, 8, 16, 64} {
		servers := r.delayQueueTurns(connections)
		for i, route := range delayQueueRoutes {
			var rows Rows
			for _, s := range servers {
				if s.got[i][0] != nil {
					rows = append(rows, Row{s.name, s.got[i][:]})
				}
			}
			for what, of := range []string{"", ": server", ": Redis"} {
				measured[i].add(Column{Name: fmt.Sprint(connections, of)}, rows, what)
			}
			if !r.oursOnly && connections < 64 {
				section.Targets = append(section.Targets, atLeast(fmt.Sprintf("/%s on %d connections, against delay-queue", route, connections),
					1.5, rows.ratio(0, "Delayer", "delay-queue")))
			}
		}
	}
	for i, route := range delayQueueRoutes {
		section.Tables = append(section.Tables, measured[i].table("", "/"+route, "jobs/s, then µs of CPU per job", "connections"))
	}
	return section
}

func (r *Run) turnServers() []*turnServer {
	server := func(name string) func(*Run) *daemon { return func(r *Run) *daemon { return r.startAPI(name) } }
	list := []*turnServer{{name: "Delayer", start: server(apiOfDelayer), ready: readyPrefix + topic}}
	if r.oursOnly {
		return list
	}
	return append(list,
		&turnServer{name: "delay-queue", start: (*Run).startDelayQueue, ready: "dq_queue_" + topic},
		&turnServer{name: "floor: net/http, without Redis", start: server(apiOfNothing)})
}

// delayQueueTurns measures the servers with that many connections.
func (r *Run) delayQueueTurns(connections int) []*turnServer {
	servers := r.turnServers()
	for _, s := range servers {
		s.run = &Run{Redis: startRedis(), sizes: r.sizes}
		defer s.run.Redis.stop()
		s.server = s.start(s.run)
		defer s.server.stop()
		s.callers = dialAPIs(s.server.addr, connections)
		defer s.callers.hangUp()
		for i := range r.turnJobs {
			s.ids = append(s.ids, id(int64(i)))
		}
	}
	for turn := range r.turnsOf + 1 { // the first one does not count
		for i, route := range delayQueueRoutes {
			for k := range servers { // starts with a different one each time
				s := servers[(k+turn)%len(servers)]
				if s.ready == "" && route != "finish" {
					continue
				}
				var perJob []float64
				own := cpuOf(r.turnJobs, s.server.cpu, func() {
					perJob = s.run.rateAndCPU(r.turnJobs, func() { s.do(route, turn) })
				})
				for c, value := range []float64{perJob[0], own, perJob[1]} {
					if turn > 0 {
						s.got[i][c] = append(s.got[i][c], value)
					}
				}
			}
			for _, s := range servers {
				if route == "push" && s.ready != "" {
					await(2*time.Minute, 50*time.Millisecond, "jobs are not ready", func() int {
						return r.turnJobs - must(redis.Int(s.run.Redis.do("LLEN", s.ready), nil))
					})
				}
			}
		}
	}
	return servers
}

// do makes a turn's requests of one kind.
func (s *turnServer) do(route string, turn int) {
	s.callers.each(len(s.ids), func(c *caller, i int64) (err error) {
		switch route {
		case "push":
			return c.push(int64(turn*len(s.ids))+i, time.Second)
		case "pop":
			s.ids[i], err = c.pop()
		case "finish":
			err = c.finish(s.ids[i])
		}
		return err
	})
}

// startDelayQueue starts the real server on our Redis.
func (r *Run) startDelayQueue() *daemon {
	addr, settings := freeAddr(), filepath.Join(newFolder(), "delay-queue.conf")
	text := fmt.Sprintf("bind_address = %s\nredis.host = %s\nredis.db = 0\n", addr, r.Redis.addr)
	check(os.WriteFile(settings, []byte(text), 0o600))
	return startListening(addr, exec.Command(delayQueuePath, "-c", settings), "") // without its log, which has each request
}
