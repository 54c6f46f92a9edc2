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

// delayQueuePath is the program of the real server.
var delayQueuePath string

var delayQueueRoutes = []string{"push", "pop", "finish"}

// turnServer is one of the servers that take turns.
type turnServer struct {
	name       string
	start      func(*Run) *daemon
	ready      string // key of the ready queue
	finishOnly bool
	run        *Run // with its own Redis
	server     *daemon
	callers    callers
	ids        []string     // of the popped jobs
	got        [3][3]Sample // by route: jobs/s, and µs of CPU per job of the server and of Redis
}

func benchDelayQueue(_ context.Context, r *Run) Section {
	if delayQueuePath == "" && !r.oursOnly {
		check(errors.New("-delay-queue must name the program of a delay-queue server"))
	}
	section := Section{Title: "delay-queue's API and its server"}
	for _, route := range delayQueueRoutes {
		section.Tables = append(section.Tables, Table{Title: "/" + route, Unit: "jobs/s, then µs of CPU per job", Head: "connections"})
	}
	for _, connections := range []int{1, 8, 16, 64} {
		servers := r.delayQueueTurns(connections)
		for i, route := range delayQueueRoutes {
			t := &section.Tables[i]
			for _, what := range []string{"", ": server", ": Redis"} {
				t.Columns = append(t.Columns, Column{Name: fmt.Sprint(connections, what)})
			}
			for _, s := range servers {
				if s.finishOnly && route != "finish" {
					continue
				}
				at := slices.IndexFunc(t.Rows, func(row Row) bool { return row.Name == s.name })
				if at < 0 {
					at, t.Rows = len(t.Rows), append(t.Rows, Row{Name: s.name})
				}
				t.Rows[at].Cells = append(t.Rows[at].Cells, s.got[i][:]...)
			}
			if !r.oursOnly && connections < 64 {
				section.Targets = append(section.Targets, atLeast(fmt.Sprintf("/%s on %d connections, against delay-queue", route, connections), 1.5,
					servers[0].got[i][0].Over(servers[1].got[i][0])))
			}
		}
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
		&turnServer{name: "delay-queue", start: (*Run).startDelayQueue, ready: delayQueueReady + topic},
		&turnServer{name: "floor: net/http, without Redis", start: server(apiOfNothing), finishOnly: true})
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
	}
	for turn := range r.turnsOf + 1 { // the first one does not count
		for i, route := range delayQueueRoutes {
			for k := range servers { // starts with a different one each time
				s := servers[(k+turn)%len(servers)]
				if s.finishOnly && route != "finish" {
					continue
				}
				values := s.run.apiCost(s.server, r.turnJobs, func() { s.do(route, r.turnJobs, turn) })
				for c := range values {
					if turn > 0 {
						s.got[i][c] = append(s.got[i][c], values[c])
					}
				}
			}
			for _, s := range servers {
				if route == "push" {
					s.run.untilReady(s.ready, r.turnJobs)
				}
			}
		}
	}
	return servers
}

// do makes n requests of one kind.
func (s *turnServer) do(route string, n, turn int) {
	if s.ids == nil {
		s.ids = make([]string, n)
		for i := range s.ids {
			s.ids[i] = id(int64(i))
		}
	}
	s.callers.each(n, func(c *caller, i int64) (err error) {
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
func (r *Run) startDelayQueue() *daemon {
	addr, settings := freeAddr(), filepath.Join(newFolder(), "delay-queue.conf")
	text := strings.Join([]string{"bind_address = " + addr, "redis.host = " + r.Redis.addr, "redis.db = 0", ""}, "\n")
	check(os.WriteFile(settings, []byte(text), 0o600))
	return startListening(addr, exec.Command(delayQueuePath, "-c", settings), "") // without its log, which has each request
}
