package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Programs of the real server and of an earlier revision of ours.
var delayQueuePath, beforePath string

// routeCost is how many numbers a turn of a route returns: jobs/s, and µs of CPU per job of the
// server and of Redis.
const routeCost = 3

var delayQueueRoutes = []string{"push", "pop", "finish"}

var delayQueueConnections = []int{1, 8, 16, 64}

// turnServer is one of the servers that take turns.
type turnServer struct {
	name       string
	start      func(*Run) (*daemon, error)
	ready      string // key of the ready queue
	finishOnly bool
	run        *Run // with its own Redis
	server     *daemon
	callers    callers
	ids        []string // of the popped jobs
	got        [][]float64
}

func benchDelayQueue(_ context.Context, r *Run) (Section, error) {
	if delayQueuePath == "" && !r.oursOnly {
		return Section{}, errors.New("-delay-queue must name the program of a delay-queue server")
	}
	section := Section{Title: "delay-queue's API and its server"}
	tables := map[string]*Table{}
	for _, route := range delayQueueRoutes {
		tables[route] = &Table{Title: "/" + route, Unit: "jobs/s, then µs of CPU per job", Head: "connections"}
	}
	for _, connections := range delayQueueConnections {
		servers, err := r.delayQueueTurns(connections)
		if err != nil {
			return Section{}, err
		}
		for i, route := range delayQueueRoutes {
			t := tables[route]
			for _, what := range []string{"", ": server", ": Redis"} {
				t.Columns = append(t.Columns, Column{Name: fmt.Sprint(connections, what)})
			}
			for k, s := range servers {
				if len(t.Rows) == k {
					t.Rows = append(t.Rows, Row{Name: s.name})
				}
				if s.finishOnly && route != "finish" {
					continue
				}
				for c := range routeCost {
					t.Rows[k].Cells = append(t.Rows[k].Cells, columnOf(s.got, i*routeCost+c))
				}
			}
			if r.oursOnly {
				continue
			}
			ratio := columnOf(servers[0].got, i*routeCost).Over(columnOf(servers[1].got, i*routeCost))
			if connections < 64 {
				section.Targets = append(section.Targets, Target{Name: fmt.Sprintf("/%s on %d connections, against delay-queue", route, connections), Limit: 1.5, Unit: "×", Got: ratio})
			}
			progress("  /%s on %d connections: %s ×", route, connections, ratio.String(2))
		}
	}
	for _, route := range delayQueueRoutes {
		t := tables[route]
		if route != "finish" {
			t.Rows = slices.DeleteFunc(t.Rows, func(row Row) bool { return len(row.Cells) == 0 })
		}
		section.Tables = append(section.Tables, *t)
	}
	return section, nil
}

// columnOf returns column i of the lines.
func columnOf(lines [][]float64, i int) (s Sample) {
	for _, line := range lines {
		s = append(s, line[i])
	}
	return s
}

func (r *Run) turnServers() []*turnServer {
	server := func(name string) func(*Run) (*daemon, error) {
		return func(r *Run) (*daemon, error) { return r.startAPI(os.Args[0], name) }
	}
	list := []*turnServer{{name: "Delayer", start: server(apiOfDelayer), ready: readyPrefix + topic}}
	if r.oursOnly {
		return list
	}
	list = append(list, &turnServer{name: "delay-queue", start: (*Run).startDelayQueue, ready: delayQueueReady + topic})
	if beforePath != "" {
		before := func(r *Run) (*daemon, error) { return r.startAPI(beforePath, apiOfDelayer) }
		list = append(list, &turnServer{name: "Delayer before", start: before, ready: readyPrefix + topic})
	}
	return append(list,
		&turnServer{name: "floor: net/http and plain commands", start: server(apiOfCommands), ready: readyPrefix + topic},
		&turnServer{name: "floor: net/http and a script", start: server(apiOfScripts), ready: readyPrefix + topic},
		&turnServer{name: "floor: net/http, without Redis", start: server(apiOfNothing), finishOnly: true})
}

// delayQueueTurns measures the servers with that many connections.
func (r *Run) delayQueueTurns(connections int) ([]*turnServer, error) {
	servers := r.turnServers()
	for _, s := range servers {
		redis, err := startRedis()
		if err != nil {
			return nil, err
		}
		defer redis.stop()
		s.run = &Run{Redis: redis, sizes: r.sizes}
		if s.server, err = s.start(s.run); err != nil {
			return nil, err
		}
		defer s.server.stop()
		if s.callers, err = dialAPIs(s.server.addr, connections); err != nil {
			return nil, err
		}
		defer s.callers.hangUp()
	}
	for turn := range r.turnsOf + 1 { // the first one does not count
		lines, err := r.delayQueueTurn(servers, turn)
		if err != nil {
			return nil, err
		}
		for i, s := range servers {
			if turn > 0 {
				s.got = append(s.got, lines[i])
			}
		}
	}
	return servers, nil
}

// delayQueueTurn is a turn of all servers, starting with a different one each time.
func (r *Run) delayQueueTurn(servers []*turnServer, turn int) ([][]float64, error) {
	lines := make([][]float64, len(servers))
	for i, route := range delayQueueRoutes {
		for k := range servers {
			at := (k + turn) % len(servers)
			s := servers[at]
			if lines[at] == nil {
				lines[at] = make([]float64, routeCost*len(delayQueueRoutes))
			}
			if s.finishOnly && route != "finish" {
				continue
			}
			var perSecond float64
			cost, err := s.run.apiCost(s.server, r.turnJobs, func() (err error) {
				perSecond, err = rate(r.turnJobs, func() error { return s.do(route, r.turnJobs, turn) })
				return err
			})
			if err != nil {
				return nil, fmt.Errorf("%s, /%s: %w", s.name, route, err)
			}
			copy(lines[at][i*routeCost:], append([]float64{perSecond}, cost...))
		}
		if route != "push" {
			continue
		}
		for _, s := range servers {
			if err := s.run.untilReady(s.ready, r.turnJobs); err != nil {
				return nil, err
			}
		}
	}
	return lines, nil
}

// do makes n requests of one kind.
func (s *turnServer) do(route string, n, turn int) error {
	if s.ids == nil {
		s.ids = make([]string, n)
		for i := range s.ids {
			s.ids[i] = id(int64(i))
		}
	}
	return s.callers.each(n, func(c *caller, i int64) (err error) {
		switch route {
		case "push":
			return c.push(int64(turn*n)+i, time.Second)
		case "pop":
			s.ids[i], err = c.pop()
		case "finish":
			err = c.finish(s.ids[i])
		}
		return err
	})
}

// startDelayQueue starts the real server on our Redis.
func (r *Run) startDelayQueue() (*daemon, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	folder, err := newFolder()
	if err != nil {
		return nil, err
	}
	settings := filepath.Join(folder, "delay-queue.conf")
	text := strings.Join([]string{"bind_address = " + addr, "redis.host = " + r.Redis.addr, "redis.db = 0", ""}, "\n")
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return startListening(addr, exec.Command(delayQueuePath, "-c", settings), "") // it logs each request
}
