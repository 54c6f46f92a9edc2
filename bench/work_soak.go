package main

import (
	"bufio"
	"context"
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

// soak has the processes of a run and keeps its account. Of daemons and workers there is one each that is never killed, to
// see whether it grows, and one that is killed again and again.
type soak struct {
	redis                    *Redis
	delayer                  string // the daemon's program
	http, mortalHTTP         string // the daemons' HTTP servers
	daemon, worker           *program
	mortalDaemon, mortalWork *program
	began                    time.Time

	mu         sync.Mutex
	jobs       []soaked
	unexpected int
	early      int
	late       [soakWindow][]time.Duration // of first attempts, by the time of delivery
}

// benchSoak runs everything at once for a long time, while daemons and workers are killed, and then asks where
// each job is.
func benchSoak(ctx context.Context, r *Run) Section {
	s := &soak{redis: r.Redis, delayer: filepath.Join(newFolder(), "delayer"), http: freeAddr(), mortalHTTP: freeAddr()}
	output("go", "build", "-C", "..", "-o", s.delayer, "./cmd/delayer")
	s.daemon, s.mortalDaemon = s.startDaemon(s.http), s.startDaemon(s.mortalHTTP)
	s.worker, s.mortalWork = s.startWorker(), s.startWorker()
	c := r.openClient()
	defer c.Close()
	s.began = time.Now()
	first := make([]float64, len(useColumns))
	measured := time.AfterFunc(soakFor/soakWindow, func() { attempt(func() { first = s.use() }) })
	defer measured.Stop()
	s.load(ctx, c)
	last := s.use()
	return s.section(first, last, s.drain(ctx, c))
}

func (s *soak) startDaemon(http string) *program {
	host, port, _ := strings.Cut(s.redis.addr, ":")
	cmd := exec.Command(s.delayer)
	cmd.Env = append(os.Environ(), "DELAYER_PID=", "DELAYER_ACCESS_LOG=", "DELAYER_ERROR_LOG=", fmt.Sprintf("DELAYER_DEAD_MAX=%d", soakDeadMax),
		"DELAYER_REDIS_HOST="+host, "DELAYER_REDIS_PORT="+port, "DELAYER_HTTP_LISTEN="+http)
	return startListening(http, cmd, "").program
}

// startWorker starts this program as a worker, which prints a line for each job that it has handled.
func (s *soak) startWorker() *program {
	cmd := exec.Command(must(os.Executable()), "-work", s.redis.addr)
	cmd.Stderr = os.Stderr
	out, in, err := os.Pipe()
	check(err)
	defer in.Close()
	cmd.Stdout = in
	go s.read(out)
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
func (s *soak) load(ctx context.Context, c *client.Client) {
	check(c.SetLimit(ctx, soakLimitedTopic, client.Limit{Concurrency: 4}))
	for i := range 10 {
		must(c.Schedules().Set(ctx, client.Schedule{Name: fmt.Sprintf("soak-%d", i), Every: time.Second, Topic: soakTickTopic, Body: "tick"}))
	}
	ctx, cancel := context.WithTimeout(ctx, soakFor)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for range 8 {
		all.Go(func() {
			for next := time.Now(); ctx.Err() == nil; next = next.Add(8 * time.Second / soakRate) {
				time.Sleep(time.Until(next))
				s.push(c)
			}
		})
	}
	s.kill(ctx)
}

// push pushes one job of a random kind and notes whether it was acknowledged.
func (s *soak) push(c *client.Client) {
	kind, delay := rand.IntN(100), time.Duration(rand.IntN(3000))*time.Millisecond
	topic, overHTTP := soakPlainTopic, false
	var options []client.PushOption
	switch {
	case kind < 1:
		topic, options = soakDeadTopic, []client.PushOption{client.JobOptions{MaxAttempts: 2}}
	case kind < 10:
		topic = soakFlakyTopic
	case kind < 15:
		topic = soakLimitedTopic
	case kind < 25: // delivered when the group is full or old enough
		group := client.Group{Key: "all", Max: 50, Quiet: time.Second}
		topic, options, delay = soakGroupTopic, []client.PushOption{group}, 0
	case kind < 35:
		overHTTP = true
	}
	s.mu.Lock()
	n := len(s.jobs)
	s.jobs = append(s.jobs, soaked{due: time.Now().Add(delay), dead: topic == soakDeadTopic})
	s.mu.Unlock()
	var err error
	if overHTTP {
		err = pushOverHTTP([]string{s.http, s.mortalHTTP}[n%2], n, delay)
	} else {
		_, err = c.Push(context.Background(), client.Message{Topic: topic, Body: strconv.Itoa(n)}, delay, options...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs[n].acknowledged = err == nil
}

func pushOverHTTP(addr string, n int, delay time.Duration) error {
	text := fmt.Sprintf(`{"topic": %q, "body": "%d", "delay": %q}`, soakPlainTopic, n, delay)
	answer, err := http.Post("http://"+addr+"/v1/jobs", "application/json", strings.NewReader(text))
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
func (s *soak) kill(ctx context.Context) {
	every := min(10*time.Second, soakFor/10)
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
		switch i % 3 {
		case 0:
			s.redis.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		case 1:
			s.mortalDaemon.kill()
			s.mortalDaemon = s.startDaemon(s.mortalHTTP)
		case 2:
			s.mortalWork.kill()
			s.mortalWork = s.startWorker()
		}
	}
}

// useColumns are the columns of use.
var useColumns = []Column{
	{"daemon, MB", 1}, {"files", 0}, {"goroutines", 0}, {"worker, MB", 1}, {"files", 0}, {"Redis, MB", 1}, {"keys", 0}, {"connections", 0},
}

// use returns what the processes that are never killed take, and Redis.
func (s *soak) use() []float64 {
	files := func(p *program) float64 { return float64(must(p.process().NumFDs())) }
	return []float64{
		s.daemon.residentBytes() / 1e6, files(s.daemon), goroutinesOf(s.http), s.worker.residentBytes() / 1e6, files(s.worker),
		s.redis.memory() / 1e6, float64(must(redis.Int(s.redis.do("DBSIZE"), nil))), s.redis.info("connected_clients"),
	}
}

func goroutinesOf(addr string) float64 {
	answer := must(http.Get("http://" + addr + "/metrics"))
	defer answer.Body.Close()
	_, after, _ := strings.Cut(string(must(io.ReadAll(answer.Body))), "\ngo_goroutines ")
	n, _, _ := strings.Cut(after, "\n")
	return must(strconv.ParseFloat(n, 64))
}

// drain waits until no job is left but dead letters, and counts these.
func (s *soak) drain(ctx context.Context, c *client.Client) (deadLetters int) {
	for i := range 10 {
		must(c.Schedules().Remove(ctx, fmt.Sprintf("soak-%d", i)))
	}
	await(time.Minute, 100*time.Millisecond, "jobs are left", func() int {
		stats := must(c.Stats(ctx))
		left := stats.Waiting
		deadLetters = 0
		for _, t := range stats.Topics {
			left += t.Ready
			deadLetters += int(t.Dead)
		}
		return int(left)
	})
	time.Sleep(200 * time.Millisecond) // until the last lines are read
	return deadLetters
}

// section closes the account.
func (s *soak) section(first, last []float64, deadLetters int) Section {
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
	row := func(name string, values ...float64) Row {
		r := Row{Name: name}
		for _, v := range values {
			r.Cells = append(r.Cells, Sample{v})
		}
		return r
	}
	account := Table{ID: "soak", Title: fmt.Sprintf("Where %s jobs went in %v", count(len(s.jobs)), soakFor), Unit: "jobs"}
	for _, name := range []string{"pushed", "acknowledged", "delivered", "dead letters", "lost", "unexpected", "duplicated", "recovered", "early"} {
		account.Columns = append(account.Columns, Column{Name: name})
	}
	account.Rows = Rows{row("Delayer", float64(len(s.jobs)), float64(acknowledged), float64(delivered), float64(deadLetters),
		float64(lost), float64(s.unexpected), float64(duplicated), float64(recovered), float64(s.early))}

	tenth := func(name string, late []time.Duration, use []float64) Row {
		return row(name, append([]float64{milliseconds(quantile(late, 0.5)), milliseconds(quantile(late, 0.99))}, use...)...)
	}
	growth := Table{
		ID: "soak-growth", Title: "Does anything grow?", Columns: append([]Column{{"late, p50, ms", 1}, {"p99, ms", 1}}, useColumns...),
		Rows: Rows{tenth("Delayer, first tenth", s.late[0], first), tenth("Delayer, last tenth", s.late[soakWindow-1], last)},
	}
	none := func(name string, n int) Target { return atMost("Soak: jobs "+name, 0, "", Sample{float64(n)}) }
	slope := func(name string, column int) Target {
		return atMost("Soak: "+name+", last tenth against first", 1.2, "×", Sample{last[column] / first[column]})
	}
	return Section{Title: "Soak", Tables: []Table{account, growth}, Targets: []Target{
		none("lost", lost), none("unexpected", s.unexpected), none("early", s.early),
		slope("the daemon's memory", 0), slope("the daemon's goroutines", 2), slope("the worker's memory", 3), slope("Redis's memory", 5),
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
		Backoff: func(*worker.Job, error) time.Duration { return 50 * time.Millisecond },
	}).Run(ctx)
}
