package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
)

func TestBPopSurvivesRestart(t *testing.T) {
	f := start(t)
	popped := f.bpop(t.Context(), "t")
	f.redis.Kill()
	f.redis.Restart()
	f.dial()
	until(t, "BPop waits again", func() bool { return f.blocked() == 1 })
	f.push("a", "t")
	expectJob(t, waitFor(t, popped), "a")
}

// A BPop that finds Redis gone bears it as well as one that was waiting.
func TestBPopStartedDuringRestart(t *testing.T) {
	f := start(t)
	f.redis.Kill()
	popped := background(func() (client.Message, error) { return f.BPop(t.Context(), 0, "t") })
	until(t, "BPop waits", func() bool { return client.Callers(f.Client, "t") == 1 })
	f.redis.Restart()
	f.dial()
	f.push("a", "t")
	expectJob(t, waitFor(t, popped), "a")
}

// Redis away for longer is an error; the calls after its return work.
func TestBPopGivesUpOnOutage(t *testing.T) {
	t.Parallel()
	f := start(t)
	waited := f.bpop(t.Context(), "t")
	f.redis.Kill()
	started := background(func() (client.Message, error) { return f.BPop(t.Context(), 0, "t") })
	for what, popped := range map[string]<-chan result{"waiting": waited, "started": started} {
		r := waitFor(t, popped)
		var dial *net.OpError
		if !errors.As(r.err, &dial) {
			t.Errorf("%s: error %v, want the network's", what, r.err)
		}
		if r.took < client.RideOut {
			t.Errorf("%s: gave up after %v, want %v", what, r.took, client.RideOut)
		}
	}
	f.redis.Restart()
	f.dial()
	popped := f.bpop(t.Context(), "t")
	f.push("a", "t")
	expectJob(t, waitFor(t, popped), "a")
}

// A timeout during an outage is told from one during which no job came.
func TestBPopTimeoutDuringOutage(t *testing.T) {
	f := start(t)
	f.redis.Kill()
	r := waitFor(t, background(func() (client.Message, error) { return f.BPop(t.Context(), 100*time.Millisecond, "t") }))
	if r.err == nil || errors.Is(r.err, client.ErrEmpty) {
		t.Errorf("error %v, want why Redis could not be asked", r.err)
	}
}

func (f *fixture) killConnections() {
	f.t.Helper()
	f.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
}

func TestBPopSurvivesCutConnections(t *testing.T) {
	f := start(t)
	popped := f.bpop(t.Context(), "t")
	for range 3 {
		f.killConnections()
		until(t, "BPop waits again", func() bool { return f.blocked() == 1 })
	}
	f.open().Push(t.Context(), client.Message{ID: "a", Topic: "t", Body: "body"}, 0)
	expectJob(t, waitFor(t, popped), "a")
}

// Trouble that is over is not what a timeout says afterwards.
func TestBPopForgetsTrouble(t *testing.T) {
	f := start(t)
	f.Pop(t.Context(), "t")
	f.killConnections() // the next look finds its connection cut
	r := waitFor(t, background(func() (client.Message, error) { return f.BPop(t.Context(), 300*time.Millisecond, "t") }))
	if !errors.Is(r.err, client.ErrEmpty) {
		t.Errorf("before the wait: error %v, want ErrEmpty", r.err)
	}

	popped := background(func() (client.Message, error) { return f.BPop(t.Context(), 500*time.Millisecond, "u") })
	until(t, "BPop waits", func() bool { return client.Callers(f.Client, "u") == 1 && f.blocked() > 0 })
	f.killConnections()
	if r := waitFor(t, popped); !errors.Is(r.err, client.ErrEmpty) {
		t.Errorf("during the wait: error %v, want ErrEmpty", r.err)
	}
}

// A Redis that hangs can't make BPop or a cancelled call hang.
func TestHungRedis(t *testing.T) {
	f := start(t)
	f.Pop(t.Context(), "t") // dials
	waiting, stop := context.WithCancel(t.Context())
	waits := f.bpop(waiting, "t")
	f.redis.Hang()
	defer f.redis.Resume()

	const soon = client.RideOut / 2 // less than any timeout of the connection
	prompt := func(what string, r result, want error) {
		t.Helper()
		if r.err == nil || want != nil && !errors.Is(r.err, want) || r.took > soon {
			t.Errorf("%s: error %v after %v, want %v soon", what, r.err, r.took, want)
		}
	}
	r := waitFor(t, background(func() (client.Message, error) { return f.BPop(t.Context(), 50*time.Millisecond, "t") }))
	if errors.Is(r.err, client.ErrEmpty) {
		t.Error("BPop calls a queue empty that it could not look at")
	}
	prompt("BPop with timeout", r, nil)

	began := time.Now()
	stop()
	r = waitFor(t, waits)
	r.took = time.Since(began)
	t.Logf("cancel to return while Redis hangs: %v", r.took)
	prompt("waiting BPop, cancelled", r, context.Canceled)

	for name := range calls(f.Client, nil) {
		for range 20 {
			call := calls(f.Client, deadline(t, 5*time.Millisecond))[name]
			r := waitFor(t, background(func() (client.Message, error) { return client.Message{}, call() }))
			prompt(name+" with deadline", r, context.DeadlineExceeded)
		}
	}
}

func deadline(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// What is taken for a call that has gone is put back: next of its topic, with its lifetime.
func TestTakeOfCancelledCallIsPutBack(t *testing.T) {
	f := start(t)
	for name, popped := range map[string]func(ctx context.Context, c *client.Client) error{
		"Pop":  func(ctx context.Context, c *client.Client) error { _, err := c.Pop(ctx, "t"); return err },
		"BPop": func(ctx context.Context, c *client.Client) error { _, err := c.BPop(ctx, 0, "t"); return err },
		"BPop with timeout": func(_ context.Context, c *client.Client) error {
			_, err := c.BPop(t.Context(), time.Second, "t")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := f.with(t)
			f.seed(all(ready("a", "t"), ready("b", "t"))...)
			before, expires := f.state(), f.expires("a")
			f.do("CONFIG", "RESETSTAT")

			sent := make(chan struct{}, 100)
			c := client.New(tappedPool(f.redis.Addr, sent))
			defer c.Close()
			c.Pop(t.Context(), "other") // dials, and loads the script
			drain(sent)
			f.redis.Hang()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			call := background(func() (client.Message, error) { return client.Message{}, popped(ctx, c) })
			<-sent // Redis will take the job when it goes on
			if name != "BPop with timeout" {
				cancel()
			}
			if r := waitFor(t, call); r.err == nil {
				t.Error("no error")
			}
			f.redis.Resume()
			until(t, "the job is put back", func() bool { return f.info("commandstats", "cmdstat_rpush:calls=") == 1 })
			f.expect(before)
			if now := f.expires("a"); now < expires-0.002 || now > expires+hangBound.Seconds() {
				t.Errorf("expires at %f, want %f", now, expires)
			}
			for _, id := range []string{"a", "b"} {
				if m, err := c.Pop(t.Context(), "t"); err != nil || m.ID != id {
					t.Errorf("Pop = %v, %v, want %s", m, err, id)
				}
			}
		})
	}
}

// tappedPool is a pool that says when something is sent.
func tappedPool(addr string, sent chan struct{}) *redis.Pool {
	return &redis.Pool{MaxIdle: 1, DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", addr, redis.DialContextFunc(func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return tap{conn, sent}, err
		}))
	}}
}

type tap struct {
	net.Conn
	sent chan<- struct{}
}

func (t tap) Write(b []byte) (int, error) {
	n, err := t.Conn.Write(b)
	t.sent <- struct{}{}
	return n, err
}

func drain(sent chan struct{}) {
	for len(sent) > 0 {
		<-sent
	}
}

// With its memory full Redis refuses a push, whole; moving, waiting and popping go on.
func TestMaxmemory(t *testing.T) {
	f := start(t)
	f.push("ready", "t")
	if _, err := f.Push(t.Context(), client.Message{ID: "waiting", Topic: "t", Body: "body"}, 500*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	f.do("CONFIG", "SET", "maxmemory", 1)
	before := f.state()
	for name, delay := range map[string]time.Duration{"waiting": time.Hour, "ready": 0, "new": time.Hour, "new, at once": 0} {
		_, err := f.Push(t.Context(), client.Message{ID: name, Topic: "t", Body: "new"}, delay)
		expectText(t, "Push of "+name, err, "OOM")
		f.expect(before)
	}
	expectText(t, "Reschedule", f.Reschedule(t.Context(), "ready", time.Hour), "OOM")
	f.expect(before)

	for _, want := range []string{"ready", "waiting"} {
		popped := background(func() (client.Message, error) { return f.BPop(t.Context(), 0, "t") })
		if want == "waiting" {
			until(t, "BPop waits", func() bool { return client.Callers(f.Client, "t") == 1 })
			f.serve()
		}
		expectJob(t, waitFor(t, popped), want)
	}
	f.expect(state{})

	f.do("CONFIG", "SET", "maxmemory", 0)
	popped := background(func() (client.Message, error) { return f.BPop(t.Context(), 0, "t") })
	f.push("a", "t")
	expectJob(t, waitFor(t, popped), "a")
}

// A power cut with the append-only file on: what was confirmed before it holds after it.
func TestPowerCut(t *testing.T) {
	f := start(t, "--appendonly", "yes", "--appendfsync", "always")
	f.bpop(t.Context(), "never")
	var pushed, removed, unknown, popped tally
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for n := 0; ; n++ {
				id := fmt.Sprint(worker, "-", n)
				if _, err := f.Push(t.Context(), client.Message{ID: id, Topic: "t", Body: "b"}, time.Duration(n%2)*time.Hour); err != nil {
					return // Redis is gone
				}
				pushed.add(id)
				if n%5 != 0 {
					continue
				}
				ok, err := f.Remove(t.Context(), id)
				if err != nil {
					unknown.add(id)
					return
				}
				if ok {
					removed.add(id)
				}
			}
		})
	}
	until(t, "work is under way", func() bool { return pushed.total() > 200 && removed.total() > 40 })
	f.redis.Kill()
	wg.Wait()
	f.redis.Restart()
	f.dial()
	after := f.state()
	for id := range pushed.counts {
		if unknown.count(id) > 0 {
			continue
		}
		var places int
		for _, list := range [][]string{after.Pool, after.Ready["t"]} {
			if slices.Contains(list, id) {
				places++
			}
		}
		_, kept := after.Buckets[id]
		if want := 1 - removed.count(id); places != want || kept != (want == 1) {
			t.Errorf("job %s: in %d places, has a bucket: %v, removed: %v", id, places, kept, want == 0)
		}
	}
	stop := f.consume(&popped, func(ctx context.Context) (client.Message, error) { return f.BPop(ctx, 0, "t") })
	until(t, "the ready jobs are popped", func() bool { return popped.total() == len(after.Ready["t"]) })
	stop()
}
