package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/shirou/gopsutil/v4/load"
)

// enginesPath is the directory filled by tools/engines.sh.
var enginesPath string

// engineStage is measured on each engine: jobs/s, and µs of the engine's CPU time per job.
type engineStage struct {
	name string
	run  func(context.Context, *Run) ([]float64, error)
}

var engineStages = []engineStage{
	{"push, 1 goroutine", pushOnEngine(1)},
	{"push, 32 goroutines", pushOnEngine(32)},
	{"take, 8 goroutines", takeOnEngine},
	{"worker, 8 goroutines", func(ctx context.Context, r *Run) ([]float64, error) {
		values, err := r.workerBurst(ctx, r.workerPeers()[0], map[string]time.Duration{})
		if err != nil {
			return nil, err
		}
		return []float64{values[0], values[len(values)-1]}, nil
	}},
	{"move, 8 topics", moveOnEngine},
}

func benchEngines(ctx context.Context, r *Run) (Section, error) {
	if enginesPath == "" {
		return Section{}, errors.New("-engines must name the folder that tools/engines.sh has filled")
	}
	programs, _ := filepath.Glob(filepath.Join(enginesPath, "*", "redis-server"))
	if len(programs) == 0 {
		return Section{}, fmt.Errorf("there are no engines in %s: -engines must name the folder that tools/engines.sh has filled", enginesPath)
	}
	var contenders []contender
	runs := map[string]*Run{}
	for _, program := range append([]string{"redis-server"}, programs...) {
		server, err := startEngine(program)
		if err != nil {
			return Section{}, err
		}
		defer server.stop()
		name, err := server.engine()
		if err != nil {
			return Section{}, err
		}
		runs[name] = &Run{Redis: server, sizes: r.sizes}
		contenders = append(contenders, contender{name: name})
	}
	tables := []Table{ // rates, costs, and both relative to the first row
		{ID: "engines", Title: "Jobs per second, by engine", Unit: "jobs/s", Chart: bars},
		{ID: "engines-cpu", Title: "CPU time per job, by engine", Unit: "µs", Chart: bars},
		{Title: "Jobs per second against " + contenders[0].name, Unit: "×"},
		{Title: "CPU time per job against " + contenders[0].name, Unit: "×"},
	}
	digits := []int{0, 1, 2, 2}
	for i := range tables {
		for _, c := range contenders {
			tables[i].Rows = append(tables[i].Rows, Row{Name: c.name})
		}
	}
	if average, err := load.Avg(); err == nil {
		r.note("The machine's load was %.1f when these turns began.", average.Load1)
	}
	for _, stage := range engineStages {
		progress("  %s", stage.name)
		for i := range contenders {
			name := contenders[i].name
			contenders[i].run = func() ([]float64, error) { return stage.run(ctx, runs[name]) }
		}
		results := r.turns(r.pairRepeats, contenders)
		first := results[contenders[0].name]
		for i := range tables {
			tables[i].Columns = append(tables[i].Columns, Column{Name: stage.name, Digits: digits[i]})
		}
		for i, c := range contenders {
			rate, cost := results[c.name].column(0), results[c.name].column(1)
			for t, cell := range []Sample{rate, cost, rate.Over(first.column(0)), cost.Over(first.column(1))} {
				tables[t].Rows[i].Cells = append(tables[t].Rows[i].Cells, cell)
			}
		}
	}
	return Section{Title: "Engines", Tables: tables}, nil
}

// onEngine measures f, which does that many jobs.
func onEngine(r *Run, jobs int, f func() error) ([]float64, error) {
	var perSecond float64
	cost, err := cpuOf(jobs, r.Redis.cpu, func() (err error) {
		perSecond, err = rate(jobs, f)
		return err
	})
	return []float64{perSecond, cost}, err
}

func pushOnEngine(goroutines int) func(context.Context, *Run) ([]float64, error) {
	return func(ctx context.Context, r *Run) ([]float64, error) {
		return r.onEmpty(ctx, oursAnew(r), func(ctx context.Context, p Peer) ([]float64, error) {
			push := func(i int) error { return p.Push(ctx, int64(i), body(int64(i)), inAnHour(i)) }
			if err := crowd(goroutines, 100, push); err != nil { // opens connections, loads scripts
				return nil, err
			}
			jobs := share(r.pushJobs, goroutines)
			return onEngine(r, jobs, func() error { return crowd(goroutines, jobs, func(i int) error { return push(i + 100) }) })
		})
	}
}

func takeOnEngine(ctx context.Context, r *Run) ([]float64, error) {
	c := client.OpenPool(client.PoolOptions{Addr: r.Redis.addr})
	defer c.Close()
	if err := errors.Join(r.Redis.clear(), r.Redis.seedReady(r.takeJobs+100)); err != nil {
		return nil, err
	}
	take := func(n int) error {
		return crowd(8, n, func(int) error {
			_, err := c.BPop(ctx, 5*time.Second, topic)
			return err
		})
	}
	if err := take(100); err != nil { // opens connections, loads scripts
		return nil, err
	}
	return onEngine(r, r.takeJobs, func() error { return take(r.takeJobs) })
}

func moveOnEngine(ctx context.Context, r *Run) ([]float64, error) {
	if err := errors.Join(r.Redis.clear(), r.Redis.seed(0, r.moveJobs, 8, past(), 0)); err != nil {
		return nil, err
	}
	return onEngine(r, r.moveJobs, func() error {
		_, err := r.oursMoves(ctx, r.moveJobs, 0)
		return err
	})
}

// engine returns the server's name and version.
func (r *Redis) engine() (string, error) {
	text, err := redis.String(r.do("INFO", "server"))
	for _, name := range []string{"Valkey", "Redis"} { // Valkey also reports a Redis version
		if _, version, ok := strings.Cut(text, "\n"+strings.ToLower(name)+"_version:"); ok {
			version, _, _ = strings.Cut(version, "\r")
			return name + " " + version, err
		}
	}
	return "", errors.Join(errors.New("it does not tell its version"), err)
}
