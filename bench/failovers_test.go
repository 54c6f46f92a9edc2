package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/server"
)

// failover is a way in which the master fails under load. fail returns when the old master may come back.
type failover struct {
	name string
	fail func(s *redistest.Sentinels)
	back func(s *redistest.Sentinels) // brings it back; nil if it was never away
}

var failovers = []failover{
	{"killed", func(s *redistest.Sentinels) { s.Servers[0].Kill() }, func(s *redistest.Sentinels) { s.Servers[0].Restart() }},
	{"hung", func(s *redistest.Sentinels) { s.Servers[0].Hang() }, func(s *redistest.Sentinels) { s.Servers[0].Continue() }},
	{"SENTINEL FAILOVER", func(s *redistest.Sentinels) { s.Sentinels[2].Do("SENTINEL", "FAILOVER", "m") }, nil},
	{"killed, a sentinel hangs", func(s *redistest.Sentinels) {
		s.Sentinels[0].Hang()
		s.Servers[0].Kill()
	}, func(s *redistest.Sentinels) { s.Servers[0].Restart() }},
	{"killed, two sentinels gone for 5 s", func(s *redistest.Sentinels) {
		s.Sentinels[0].Kill()
		s.Sentinels[1].Kill()
		s.Servers[0].Kill()
		time.Sleep(5 * time.Second)
		s.Sentinels[1].Restart()
	}, func(s *redistest.Sentinels) { s.Servers[0].Restart() }},
}

// care is a way to protect the jobs.
type care struct {
	name        string
	minReplicas int
	options     []client.PushOption
}

var cares = []care{
	{name: "nothing"},
	{name: "min-replicas-to-write 1", minReplicas: 1},
	{name: "Replicas(1)", options: []client.PushOption{client.Replicas(1, time.Second)}},
	{name: "Replicas(2)", options: []client.PushOption{client.Replicas(2, time.Second)}},
	{name: "Replicas(1), min-replicas-to-write 1", minReplicas: 1, options: []client.PushOption{client.Replicas(1, time.Second)}},
}

// TestFailovers measures the cost of a failover under 500 pushes, reserves and acks a second. It runs for a quarter of
// an hour:
//
//	FAILOVERS=1 go test -C bench -run TestFailovers -v -timeout 1h .
func TestFailovers(t *testing.T) {
	redistest.Long(t)
	if os.Getenv("FAILOVERS") == "" {
		t.Skip("FAILOVERS is not set")
	}
	var rows []string
	for _, f := range failovers {
		for _, c := range cares {
			t.Run(f.name+"/"+c.name, func(t *testing.T) {
				l := startFailoverLoad(t, c)
				row := l.measure(f)
				rows = append(rows, fmt.Sprintf("| %s | %s | %s |", f.name, c.name, row))
				t.Log(row)
			})
		}
	}
	t.Log("\n| master | with | calls succeed after | last error after | failed pushes | unknown pushes | lost before | lost after | twice | early |\n" + strings.Join(rows, "\n"))
}

// failoverLoad makes 500 pushes, reserves and acks a second.
type failoverLoad struct {
	*redistest.Sentinels
	t       *testing.T
	client  *client.Client
	options []client.PushOption
	failing atomic.Int64 // Unix ns of the last failed call

	mu   sync.Mutex
	jobs map[string]*fate
}

// fate records what happened to a job.
type fate struct {
	pushed, answered time.Time // the push
	delay            time.Duration
	err              error // of the push
	delivered        []time.Time
}

// delayOf returns a short delay, or one that ends after the failover: a job that falls due earlier is not lost.
func delayOf(n int) time.Duration {
	if n%2 == 0 {
		return 200 * time.Millisecond
	}
	return 3 * time.Second
}

func startFailoverLoad(t *testing.T, c care) *failoverLoad {
	l := &failoverLoad{Sentinels: redistest.StartSentinels(t), t: t, options: c.options, jobs: map[string]*fate{}}
	for _, s := range l.Servers {
		s.Do("CONFIG", "SET", "min-replicas-to-write", c.minReplicas, "min-replicas-max-lag", 2)
	}
	for _, s := range l.Sentinels.Sentinels {
		s.Do("SENTINEL", "SET", "m", "down-after-milliseconds", 2000) // a busy machine must not cause a second failover
	}
	o := client.PoolOptions{Sentinels: l.Addrs(), SentinelMaster: "m"}
	l.client = redistest.Must(client.OpenPool(o))
	t.Cleanup(func() { l.client.Close() })
	r := redistest.Must(client.Connect(o))
	t.Cleanup(func() { r.Close() })
	redistest.Background(t, redistest.Must(server.New(r, server.Options{Logger: slog.New(slog.DiscardHandler)})).Run)
	redistest.Background(t, l.push)
	for range 16 {
		redistest.Background(t, l.work)
	}
	time.Sleep(3 * time.Second)
	return l
}

// push pushes 500 jobs a second, each in its own goroutine.
func (l *failoverLoad) push(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-tick.C:
			go l.pushOne(fmt.Sprint(n), delayOf(n))
		case <-ctx.Done():
			return nil
		}
	}
}

func (l *failoverLoad) pushOne(id string, delay time.Duration) {
	f := &fate{pushed: time.Now(), delay: delay}
	l.mu.Lock()
	l.jobs[id] = f
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err := l.client.Push(ctx, client.Message{ID: id, Topic: "t", Body: "b"}, delay, l.options...)
	l.mu.Lock()
	defer l.mu.Unlock()
	f.answered, f.err = time.Now(), err
	l.note(err)
}

// work reserves jobs and acknowledges them.
func (l *failoverLoad) work(ctx context.Context) error {
	for ctx.Err() == nil {
		d, err := l.client.Reserve(ctx, 2*time.Second, "t")
		switch {
		case ctx.Err() != nil || errors.Is(err, client.ErrEmpty):
			continue
		case err != nil:
			l.note(err)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		l.mu.Lock()
		f := l.jobs[d.ID]
		f.delivered = append(f.delivered, time.Now())
		l.mu.Unlock()
		l.note(d.Ack(context.Background()))
	}
	return nil
}

func (l *failoverLoad) note(err error) {
	if err != nil {
		l.failing.Store(time.Now().UnixNano())
	}
}

// measure makes the master fail, and returns the cost of that.
func (l *failoverLoad) measure(f failover) string {
	named, promoted := make(chan time.Time, 1), make(chan time.Time, 2)
	for _, s := range l.Servers[1:] {
		go func() { promoted <- l.watch(s, isMaster) }()
	}
	go func() { named <- l.watch(l.Sentinels.Sentinels[2], l.namesAnother) }()
	began := time.Now()
	f.fail(l.Sentinels)
	at, role := redistest.Receive(l.t, named), redistest.Receive(l.t, promoted)
	next := l.Master(l.Sentinels.Sentinels[2])
	if f.back != nil {
		time.Sleep(2 * time.Second)
		f.back(l.Sentinels)
	}
	l.watch(l.Servers[0], isReplica)
	time.Sleep(8 * time.Second) // longer than leases and calls
	if last := l.Master(l.Sentinels.Sentinels[2]); last != next {
		return "measured nothing: there was another failover"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var failedPushes, unknown, before, after, twice, early int
	first := time.Time{}
	for _, f := range l.jobs {
		stored := f.err == nil || errors.As(f.err, new(*client.ReplicasError))
		switch {
		case f.answered.IsZero() || time.Since(f.pushed) < 6*time.Second:
			continue // in flight, or not yet delivered
		case f.err != nil && len(f.delivered) > 0 || errors.As(f.err, new(*client.ReplicasError)):
			unknown++ // the push failed, but the job is stored
		case f.err != nil:
			failedPushes++
		case len(f.delivered) == 0 && f.pushed.Before(role):
			before++
		case len(f.delivered) == 0:
			after++
		}
		if stored && f.err == nil && len(f.delivered) > 0 && f.pushed.After(at) && (first.IsZero() || f.answered.Before(first)) {
			first = f.answered
		}
		if len(f.delivered) > 1 {
			twice++
		}
		if len(f.delivered) > 0 && f.delivered[0].Before(f.pushed.Add(f.delay)) {
			early++
		}
	}
	last := "none"
	if failed := time.Unix(0, l.failing.Load()); failed.After(began) {
		last = ms(failed.Sub(at))
	}
	l.t.Logf("promoted %s, named %s after the fault", ms(role.Sub(began)), ms(at.Sub(began)))
	return fmt.Sprintf("%s | %s | %d | %d | %d | %d | %d | %d", ms(first.Sub(at)), last, failedPushes, unknown, before, after, twice, early)
}

func ms(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }

// watch polls a server each millisecond until the condition holds, and returns the time at which it did.
func (l *failoverLoad) watch(s *redistest.Server, is func(do func(string, ...any) any) bool) time.Time {
	var conn redis.Conn
	do := func(command string, args ...any) any {
		if conn == nil || conn.Err() != nil {
			var err error
			if conn, err = redis.Dial("tcp", s.Addr); err != nil {
				conn = nil
				return nil
			}
		}
		reply, _ := conn.Do(command, args...)
		return reply
	}
	for l.t.Context().Err() == nil && !is(do) {
		time.Sleep(time.Millisecond)
	}
	return time.Now()
}

func isMaster(do func(string, ...any) any) bool { return role(do) == "master" }

func isReplica(do func(string, ...any) any) bool { return role(do) == "slave" }

func role(do func(string, ...any) any) (role string) {
	reply, _ := redis.Values(do("ROLE"), nil)
	redis.Scan(reply, &role)
	return role
}

func (l *failoverLoad) namesAnother(do func(string, ...any) any) bool {
	addr, _ := redis.Strings(do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m"), nil)
	return len(addr) == 2 && !strings.HasSuffix(l.Servers[0].Addr, cmp.Or(addr[1], "?"))
}
