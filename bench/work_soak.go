package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
)

// soakFor is how long the workload soak takes; the other workloads have their sizes.
var soakFor time.Duration

const (
	soakRate    = 1000 // jobs pushed per second
	soakLease   = 2 * time.Second
	soakWindow  = 10  // parts of the run; the first and the last one are compared
	soakDeadMax = 500 // dead letters that are kept, so that they do not count as growth
)

// Topics of the soak. A body is the job's number; handlers do what the topic says.
const (
	soakPlainTopic   = "soak_plain"
	soakFlakyTopic   = "soak_flaky"   // the first attempt fails
	soakDeadTopic    = "soak_dead"    // every attempt fails
	soakLimitedTopic = "soak_limited" // at most four at a time
	soakGroupTopic   = "soak_group"
	soakTickTopic    = "soak_tick" // jobs of schedules, which nobody counts
)

// soaked says what happened to one job.
type soaked struct {
	due          time.Time
	acknowledged bool // the push returned without an error
	dead         bool // its topic makes it a dead letter
	delivered    int
}

// soak keeps the account of a run.
type soak struct {
	redis *Redis
	began time.Time

	mu         sync.Mutex
	jobs       []soaked
	unexpected int
	early      int
	late       [soakWindow][]time.Duration // of first attempts, by the time of delivery
}

// soakUse is what the run takes.
type soakUse struct {
	daemonMB, daemonFiles, daemonGoroutines float64
	workerMB, workerFiles                   float64
	redisMB, redisKeys, redisConnections    float64
}

// benchSoak runs everything at once for a long time, while daemons and workers are killed, and then asks where
// each job is.
func benchSoak(ctx context.Context, r *Run) Section {
	s := &soak{redis: r.Redis}
	run := s.start()
	s.began = time.Now()
	var first soakUse
	measured := time.AfterFunc(soakFor/soakWindow, func() { attempt(func() { first = run.use() }) })
	defer measured.Stop()
	s.load(ctx, run)
	last := run.use()
	return s.section(first, last, s.drain(ctx))
}

// soakRun has the processes of a run: of daemons and workers one each that is never killed, to see whether it grows,
// and one that is killed again and again.
type soakRun struct {
	s                        *soak
	delayer                  string // the daemon's program
	http                     string // the HTTP server of the daemon that is never killed
	daemon, worker           *program
	mortalDaemon, mortalWork *program
	mortalHTTP               string
}

func (s *soak) start() *soakRun {
	r := &soakRun{s: s, delayer: filepath.Join(newFolder(), "delayer"), http: freeAddr(), mortalHTTP: freeAddr()}
	output("go", "build", "-C", "..", "-o", r.delayer, "./cmd/delayer")
	r.daemon, r.mortalDaemon = r.startDaemon(r.http), r.startDaemon(r.mortalHTTP)
	r.worker, r.mortalWork = r.startWorker(), r.startWorker()
	return r
}

func (r *soakRun) startDaemon(http string) *program {
	host, port, _ := strings.Cut(r.s.redis.addr, ":")
	cmd := exec.Command(r.delayer)
	cmd.Env = append(os.Environ(), "DELAYER_PID=", "DELAYER_ACCESS_LOG=", "DELAYER_ERROR_LOG=", fmt.Sprintf("DELAYER_DEAD_MAX=%d", soakDeadMax),
		"DELAYER_REDIS_HOST="+host, "DELAYER_REDIS_PORT="+port, "DELAYER_HTTP_LISTEN="+http)
	return startListening(http, cmd, "").program
}

// startWorker starts this program as a worker, which prints a line for each job that it has handled.
func (r *soakRun) startWorker() *program {
	cmd := exec.Command(must(os.Executable()), "-work", r.s.redis.addr)
	cmd.Stderr = os.Stderr
	out, in, err := os.Pipe()
	check(err)
	defer in.Close()
	cmd.Stdout = in
	go r.s.read(out)
	return must(start(cmd))
}

// read reads a worker's lines: a job's number, its attempt, and when it was handled.
func (s *soak) read(from io.ReadCloser) {
	defer from.Close()
	for lines := bufio.NewScanner(from); lines.Scan(); {
		var n, attempt int
		var at int64
		if _, err := fmt.Sscan(lines.Text(), &n, &attempt, &at); err != nil {
			continue // cut short by a kill
		}
		s.delivered(n, attempt, time.UnixMicro(at))
	}
}

func (s *soak) delivered(n, attempt int, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n < 0 || n >= len(s.jobs) {
		s.unexpected++
		return
	}
	j := &s.jobs[n]
	j.delivered++
	late := at.Sub(j.due)
	if late < -time.Millisecond { // due times are rounded up to milliseconds by Redis's clock
		s.early++
	}
	if window := int(at.Sub(s.began) * soakWindow / soakFor); attempt == 1 && window >= 0 && window < soakWindow {
		s.late[window] = append(s.late[window], late)
	}
}

// load pushes jobs until the time is over, and kills.
func (s *soak) load(ctx context.Context, r *soakRun) {
	c := must(client.OpenPool(client.PoolOptions{Addr: s.redis.addr}))
	defer c.Close()
	check(c.SetLimit(ctx, soakLimitedTopic, client.Limit{Concurrency: 4}))
	for i := range 10 {
		must(c.Schedule(ctx, client.Schedule{Name: fmt.Sprintf("soak-%d", i), Every: time.Second, Topic: soakTickTopic, Body: "tick"}))
	}
	ctx, cancel := context.WithTimeout(ctx, soakFor)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for range 8 {
		all.Go(func() {
			for next := time.Now(); ctx.Err() == nil; next = next.Add(8 * time.Second / soakRate) {
				time.Sleep(time.Until(next))
				s.push(c, r)
			}
		})
	}
	r.kill(ctx)
}

// push pushes one job of a random kind and notes whether it was acknowledged.
func (s *soak) push(c *client.Client, r *soakRun) {
	kind, delay := rand.IntN(100), time.Duration(rand.IntN(3000))*time.Millisecond
	s.mu.Lock()
	n := len(s.jobs)
	s.jobs = append(s.jobs, soaked{due: time.Now().Add(delay), dead: kind < 1})
	s.mu.Unlock()
	ctx, body := context.Background(), strconv.Itoa(n)
	var err error
	switch {
	case kind < 1:
		_, err = c.Push(ctx, client.Message{Topic: soakDeadTopic, Body: body}, delay, client.MaxAttempts(2))
	case kind < 10:
		_, err = c.Push(ctx, client.Message{Topic: soakFlakyTopic, Body: body}, delay)
	case kind < 15:
		_, err = c.Push(ctx, client.Message{Topic: soakLimitedTopic, Body: body}, delay)
	case kind < 25:
		s.mu.Lock()
		s.jobs[n].due = time.Now() // a group is delivered when it is full or old enough
		s.mu.Unlock()
		_, err = c.Push(ctx, client.Message{Topic: soakGroupTopic, Body: body}, 0, client.Group("all", client.GroupOptions{Max: 50, Quiet: time.Second}))
	case kind < 35:
		err = pushOverHTTP([]string{r.http, r.mortalHTTP}[n%2], body, delay)
	default:
		_, err = c.Push(ctx, client.Message{Topic: soakPlainTopic, Body: body}, delay)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs[n].acknowledged = err == nil
}

func pushOverHTTP(addr, body string, delay time.Duration) error {
	text, err := json.Marshal(map[string]any{"topic": soakPlainTopic, "body": body, "delay": delay.String()})
	if err != nil {
		return err
	}
	answer, err := http.Post("http://"+addr+"/v1/jobs", "application/json", bytes.NewReader(text))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	io.Copy(io.Discard, answer.Body)
	if answer.StatusCode >= 300 {
		return errors.New(answer.Status)
	}
	return nil
}

// kill kills connections, a daemon and a worker in turn until ctx is done.
func (r *soakRun) kill(ctx context.Context) {
	every := min(10*time.Second, soakFor/10)
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
		switch i % 3 {
		case 0:
			r.s.redis.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		case 1:
			r.mortalDaemon.kill()
			r.mortalDaemon = r.startDaemon(r.mortalHTTP)
		case 2:
			r.mortalWork.kill()
			r.mortalWork = r.startWorker()
		}
	}
}

// use returns what the processes that are never killed take, and Redis.
func (r *soakRun) use() (u soakUse) {
	u.daemonMB, u.workerMB = r.daemon.residentBytes()/1e6, r.worker.residentBytes()/1e6
	u.daemonFiles, u.workerFiles = float64(must(r.daemon.process().NumFDs())), float64(must(r.worker.process().NumFDs()))
	u.daemonGoroutines = must(goroutinesOf(r.http))
	u.redisMB, u.redisConnections = r.s.redis.memory()/1e6, r.s.redis.info("connected_clients")
	u.redisKeys = float64(must(redis.Int(r.s.redis.do("DBSIZE"), nil)))
	return u
}

func goroutinesOf(addr string) (float64, error) {
	answer, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if n, is := strings.CutPrefix(lines.Text(), "go_goroutines "); is {
			return strconv.ParseFloat(n, 64)
		}
	}
	return 0, errors.New("/metrics has no go_goroutines")
}

// drain waits until no job is left but dead letters, and counts these.
func (s *soak) drain(ctx context.Context) (deadLetters int) {
	c := must(client.OpenPool(client.PoolOptions{Addr: s.redis.addr}))
	defer c.Close()
	for i := range 10 {
		must(c.Unschedule(ctx, fmt.Sprintf("soak-%d", i)))
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		stats := must(c.Stats(ctx))
		left := stats.Waiting
		deadLetters = 0
		for _, t := range stats.Topics {
			left += t.Ready
			deadLetters += int(t.Dead)
		}
		if left == 0 {
			time.Sleep(200 * time.Millisecond) // until the last lines are read
			return deadLetters
		}
		if time.Now().After(deadline) {
			check(fmt.Errorf("a minute after the last push %d jobs are left", left))
		}
	}
}

// section closes the account.
func (s *soak) section(first, last soakUse, deadLetters int) Section {
	s.mu.Lock()
	defer s.mu.Unlock()
	var acknowledged, delivered, lost, duplicated, recovered, dead int
	for _, j := range s.jobs {
		switch {
		case j.dead:
			if j.acknowledged {
				dead++
			}
		case j.delivered > 0:
			delivered++
		case j.acknowledged:
			lost++
		}
		if j.acknowledged {
			acknowledged++
		} else if j.delivered > 0 {
			recovered++
		}
		duplicated += max(j.delivered-1, 0)
	}
	lost += max(min(dead, soakDeadMax)-deadLetters, 0)
	cells := func(values ...float64) (list []Sample) {
		for _, v := range values {
			list = append(list, Sample{v})
		}
		return list
	}
	account := Table{ID: "soak", Title: fmt.Sprintf("Where %s jobs went in %v", count(len(s.jobs)), soakFor), Unit: "jobs"}
	for _, name := range []string{"pushed", "acknowledged", "delivered", "dead letters", "lost", "unexpected", "duplicated", "recovered", "early"} {
		account.Columns = append(account.Columns, Column{Name: name})
	}
	account.Rows = Rows{{"Delayer", cells(float64(len(s.jobs)), float64(acknowledged), float64(delivered), float64(deadLetters),
		float64(lost), float64(s.unexpected), float64(duplicated), float64(recovered), float64(s.early))}}

	row := func(name string, u soakUse, late []time.Duration) Row {
		return Row{name, cells(milliseconds(quantile(late, 0.5)), milliseconds(quantile(late, 0.99)), u.daemonMB, u.daemonFiles, u.daemonGoroutines,
			u.workerMB, u.workerFiles, u.redisMB, u.redisKeys, u.redisConnections)}
	}
	growth := Table{
		ID: "soak-growth", Title: "Does anything grow?",
		Columns: []Column{{"late, p50, ms", 1}, {"p99, ms", 1}, {"daemon, MB", 1}, {"files", 0}, {"goroutines", 0},
			{"worker, MB", 1}, {"files", 0}, {"Redis, MB", 1}, {"keys", 0}, {"connections", 0}},
		Rows: Rows{row("Delayer, first tenth", first, s.late[0]), row("Delayer, last tenth", last, s.late[soakWindow-1])},
	}
	none := func(name string, n int) Target { return atMost("Soak: jobs "+name, 0, "", Sample{float64(n)}) }
	slope := func(name string, from, to float64) Target {
		return atMost("Soak: "+name+", last tenth against first", 1.2, "×", Sample{to / from})
	}
	return Section{Title: "Soak", Tables: []Table{account, growth}, Targets: []Target{
		none("lost", lost), none("unexpected", s.unexpected), none("early", s.early),
		slope("the daemon's memory", first.daemonMB, last.daemonMB), slope("the daemon's goroutines", first.daemonGoroutines, last.daemonGoroutines),
		slope("the worker's memory", first.workerMB, last.workerMB), slope("Redis's memory", first.redisMB, last.redisMB),
	}}
}

// workSoak handles the soak's jobs until it is stopped, and prints a line for each.
func workSoak(addr string) error {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	c := must(client.OpenPool(client.PoolOptions{Addr: addr}))
	defer c.Close()
	var mu sync.Mutex
	handled := func(body string, attempt int) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(body, attempt, time.Now().UnixMicro())
	}
	mux := worker.NewMux()
	plain := func(_ context.Context, job *worker.Job) error {
		handled(job.Body, job.Attempt)
		return nil
	}
	mux.HandleFunc(soakPlainTopic, plain)
	mux.HandleFunc(soakLimitedTopic, plain)
	mux.HandleFunc(soakTickTopic, func(context.Context, *worker.Job) error { return nil })
	mux.HandleFunc(soakDeadTopic, func(context.Context, *worker.Job) error { return errors.New("as every attempt") })
	mux.HandleFunc(soakFlakyTopic, func(ctx context.Context, job *worker.Job) error {
		if job.Attempt == 1 {
			return errors.New("as every first attempt")
		}
		return plain(ctx, job)
	})
	worker.HandleGroup(mux, client.Topic[int](soakGroupTopic), func(ctx context.Context, numbers []int) error {
		for _, n := range numbers {
			handled(strconv.Itoa(n), 2) // not lateness: a group waits until it is full
		}
		return nil
	})
	return worker.New(c, mux, worker.Options{
		Concurrency: 50, Lease: soakLease, Logger: slog.New(slog.DiscardHandler),
		Backoff: func(int, error) time.Duration { return 50 * time.Millisecond },
	}).Run(ctx)
}
