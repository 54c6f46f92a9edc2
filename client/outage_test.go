package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
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
	until(t, "BPop waits again", func() bool { return f.waiters("t") == 1 })
	f.pushAnew("a", "t")
	expectJob(t, waitFor(t, popped), "a")
}

// pushAnew is push from a Client of its own: none of its connections was cut.
func (f *fixture) pushAnew(id, topic string) {
	f.t.Helper()
	_, err := f.open().Push(f.t.Context(), client.Message{ID: id, Topic: topic, Body: "body"}, 0)
	check(f.t, err)
}

// A BPop that finds Redis gone bears it as well as one that was waiting.
func TestBPopStartedDuringRestart(t *testing.T) {
	f := start(t)
	f.redis.Kill()
	popped := background(func() (client.Message, error) { return f.BPop(t.Context(), 0, "t") })
	until(t, "BPop is there", func() bool { all, _ := client.Callers(f.Client, "t"); return all == 1 })
	f.redis.Restart()
	f.pushAnew("a", "t")
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
	popped := f.bpop(t.Context(), "t")
	f.pushAnew("a", "t")
	expectJob(t, waitFor(t, popped), "a")
}

// While Redis is away BPop does not hammer at its door.
func TestRetriesAreSpaced(t *testing.T) {
	t.Parallel()
	var dials atomic.Int64
	c := client.New(&redis.Pool{Dial: func() (redis.Conn, error) {
		dials.Add(1)
		return nil, errors.New("refused")
	}})
	defer c.Close()
	expectText(t, "BPop", waitFor(t, background(func() (client.Message, error) { return c.BPop(t.Context(), 0, "t") })).err, "refused")
	if n := dials.Load(); n < 4 || n > 20 {
		t.Errorf("%d attempts in %v", n, client.RideOut)
	}
}

// A Pop behind more callers than one pop serves is told of an outage, too.
func TestOutageWithManyCallers(t *testing.T) {
	const waiters, pops = 300, 10
	t.Parallel()
	f := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan result, waiters)
	for range waiters {
		go func() {
			m, err := f.BPop(ctx, 0, "t")
			waited <- result{m: m, err: err}
		}()
	}
	f.waits(f.Client, "t", waiters)
	f.redis.Kill()
	for range pops {
		r := waitFor(t, background(func() (client.Message, error) { return f.Pop(t.Context(), "t") }))
		if r.err == nil || errors.Is(r.err, client.ErrEmpty) {
			t.Errorf("Pop = %v, %v", r.m, r.err)
		}
	}
	cancel()
	for range waiters {
		if r := waitFor(t, waited); r.err == nil {
			t.Errorf("BPop = %v", r.m)
		}
	}
}

// Callers of several topics notice an outage, too, also where others wait for some of these, so
// that each topic is asked by itself.
func TestOutageOfSeveralTopics(t *testing.T) {
	const callers = 20
	t.Parallel()
	f := start(t)
	for _, topic := range []string{"a", "b"} {
		f.bpop(t.Context(), topic)
	}
	f.redis.Kill()
	ended := make(chan result, callers)
	for n := range callers {
		go func() {
			more := []string{"b", fmt.Sprint("own", n)}
			m, err := f.BPop(t.Context(), 0, "a", more[:n%2+1]...)
			ended <- result{m: m, err: err}
		}()
	}
	for range callers {
		if r := waitFor(t, ended); r.err == nil {
			t.Errorf("BPop = %v", r.m)
		}
	}
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
		until(t, "BPop waits again", func() bool { return f.waiters("t") == 1 })
	}
	f.open().Push(t.Context(), client.Message{ID: "a", Topic: "t", Body: "body"}, 0)
	expectJob(t, waitFor(t, popped), "a")
}

// Trouble that is over is not what a timeout says afterwards, unless a job may have
// been lost by it.
func TestBPopForgetsTrouble(t *testing.T) {
	f := start(t)
	f.Pop(t.Context(), "t")
	f.killConnections() // the next pop finds its connection cut
	r := waitFor(t, background(func() (client.Message, error) { return f.BPop(t.Context(), 300*time.Millisecond, "t") }))
	if !errors.Is(r.err, client.ErrLost) {
		t.Errorf("before the wait: error %v, want ErrLost", r.err)
	}

	popped := background(func() (client.Message, error) { return f.BPop(t.Context(), 1500*time.Millisecond, "u") })
	f.waits(f.Client, "u", 1)
	f.killConnections()
	f.do("CLIENT", "KILL", "TYPE", "pubsub")
	if r := waitFor(t, popped); !errors.Is(r.err, client.ErrEmpty) {
		t.Errorf("during the wait: error %v, want ErrEmpty", r.err)
	}
}

// A Redis that hangs can't make a call hang: a context that ends, ends a BPop
// that waits and all calls but those that take jobs; these wait for their answer
// as long as the connection does.
func TestHungRedis(t *testing.T) {
	f := start(t)
	c := client.OpenPool(client.PoolOptions{Addr: f.redis.Addr, ReadTimeout: 100 * time.Millisecond})
	defer c.Close()
	f.Pop(t.Context(), "t") // dials
	c.Pop(t.Context(), "t")
	waiting, stop := context.WithCancel(t.Context())
	waits := f.bpop(waiting, "t")
	f.redis.Hang()
	defer f.redis.Resume()

	r := waitFor(t, background(func() (client.Message, error) { return c.BPop(t.Context(), 50*time.Millisecond, "t") }))
	if r.err == nil || errors.Is(r.err, client.ErrEmpty) {
		t.Errorf("BPop of a queue that it could not look at: %v", r.err)
	}

	began := time.Now()
	stop()
	r = waitFor(t, waits)
	t.Logf("cancel to return while Redis hangs: %v", time.Since(began))
	if !errors.Is(r.err, context.Canceled) || errors.Is(r.err, client.ErrLost) {
		t.Errorf("waiting BPop, cancelled: %v", r.err)
	}

	for name := range calls(f.Client, nil) {
		takes := slices.Contains([]string{"Pop", "BPop", "Reserve", "ReserveBatch", "Fetch"}, name)
		of, times := f.Client, 20
		if takes {
			of, times = c, 1
		}
		for range times {
			call := calls(of, deadline(t, 5*time.Millisecond))[name]
			r := waitFor(t, background(func() (client.Message, error) { return client.Message{}, call() }))
			const soon = client.RideOut / 2 // less than any timeout of f's connections
			switch {
			case !takes && r.took > soon:
				t.Errorf("%s with deadline: error %v after %v, want it soon", name, r.err, r.took)
			case !takes && !errors.Is(r.err, context.DeadlineExceeded):
				t.Errorf("%s with deadline: error %v", name, r.err)
			case r.err == nil || errors.Is(r.err, client.ErrEmpty):
				t.Errorf("%s with deadline: error %v", name, r.err)
			}
		}
	}
	if lost := c.Counters().Lost; lost == 0 {
		t.Error("no answer is counted as lost")
	}
}

func deadline(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// A call whose context or timeout ends while Redis is asked for it gets the job
// that Redis took: nothing is lost, and nothing is put back.
func TestCancelledPopGetsItsJob(t *testing.T) {
	f := start(t)
	for name, pop := range map[string]func(ctx context.Context, c *client.Client) (client.Message, error){
		"Pop":  func(ctx context.Context, c *client.Client) (client.Message, error) { return c.Pop(ctx, "t") },
		"BPop": func(ctx context.Context, c *client.Client) (client.Message, error) { return c.BPop(ctx, 0, "t") },
		"BPop of several": func(ctx context.Context, c *client.Client) (client.Message, error) {
			return c.BPop(ctx, 0, "u", "t")
		},
		"BPop with timeout": func(_ context.Context, c *client.Client) (client.Message, error) {
			return c.BPop(t.Context(), 10*time.Millisecond, "t")
		},
		"PopBatch": func(ctx context.Context, c *client.Client) (client.Message, error) {
			batch, err := c.PopBatch(ctx, "t", 1)
			return append(batch, client.Message{})[0], err
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := f.with(t)
			f.seed(all(ready("a", "t"), ready("b", "t"))...)
			sent := make(chan struct{}, 100)
			c := client.New(tappedPool(f.redis.Addr, sent))
			defer c.Close()
			c.Pop(t.Context(), "other") // dials, and loads the script
			drain(sent)
			f.redis.Hang()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			call := background(func() (client.Message, error) { return pop(ctx, c) })
			<-sent // Redis will take the job when it goes on
			cancel()
			time.Sleep(20 * time.Millisecond) // what ends would have ended by now
			select {
			case r := <-call:
				t.Errorf("returned %+v before the answer", r)
			default:
			}
			f.redis.Resume()
			expectJob(t, waitFor(t, call), "a")
			f.expect(state{Ready: queues{"t": {"b"}}, Buckets: buckets{"b": "t old"}})
		})
	}
}

// While connections are cut all the time and calls are cancelled, every job is
// popped once, is in the queue, or is counted as lost.
func TestNothingTwiceWhileConnectionsAreCut(t *testing.T) {
	const jobs, workers = 1000, 8
	f := start(t)
	f.do("EVAL", seedReady, 0, jobs)
	stop := make(chan struct{})
	var killer, consumers sync.WaitGroup
	killer.Go(func() {
		conn, err := redis.Dial("tcp", f.redis.Addr)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				conn.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			}
		}
	})
	c := f.open()
	var popped tally
	var done atomic.Int64
	for range workers {
		consumers.Go(func() {
			for done.Load()+c.Counters().Lost < jobs*9/10 {
				ctx, cancel := context.WithTimeout(t.Context(), rand.N(2*time.Millisecond))
				m, err := c.BPop(ctx, 0, "t")
				cancel()
				if err == nil {
					popped.add(m.ID)
					done.Add(1)
				}
			}
		})
	}
	consumers.Wait()
	close(stop)
	killer.Wait()
	f.HangUp() // that one is killed, too
	left := map[string]bool{}
	for _, id := range f.state().Ready["t"] {
		left[id] = true
	}
	missing := 0
	for n := 1; n <= jobs; n++ {
		id := fmt.Sprint(n)
		switch times := popped.count(id); {
		case times > 1, times == 1 && left[id]:
			t.Errorf("job %s: popped %d times, in the queue: %v", id, times, left[id])
		case times == 0 && !left[id]:
			missing++
		}
	}
	t.Logf("%d popped, %d left, %d lost with their answers, at most %d of them by the count", popped.total(), len(left), missing, c.Counters().Lost)
	if int64(missing) > c.Counters().Lost {
		t.Errorf("%d jobs are gone, but only %d were counted as lost", missing, c.Counters().Lost)
	}
}

// seedReady makes ARGV[1] jobs that are ready.
const seedReady = `for i = 1, tonumber(ARGV[1]) do
	redis.call('HSET', 'delayer:job_bucket:' .. i, 'topic', 't', 'body', 'b')
	redis.call('LPUSH', 'delayer:ready_queue:t', i)
end`

// tappedPool is a pool that says when something was sent.
func tappedPool(addr string, sent chan struct{}) *redis.Pool {
	return onWrite(addr, func() { sent <- struct{}{} })
}

// onWrite is a pool that calls a function when something was sent.
func onWrite(addr string, sent func()) *redis.Pool {
	return &redis.Pool{MaxIdle: 1, DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", addr, redis.DialContextFunc(func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return tap{conn, sent}, err
		}))
	}}
}

type tap struct {
	net.Conn
	sent func()
}

func (t tap) Write(b []byte) (int, error) {
	n, err := t.Conn.Write(b)
	t.sent()
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
	_, err := f.Push(t.Context(), client.Message{ID: "waiting", Topic: "t", Body: "body"}, 500*time.Millisecond)
	check(t, err)
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
			f.bears(f.Client, "t") // it can't be entered
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

// A Redis that can be read, but takes no writes, is an outage, too: BPop does not
// wait for ever for a job that is there.
func TestBPopGivesUpOnRedisThatTakesNoWrites(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.push("a", "t")
	f.do("CONFIG", "SET", "min-replicas-to-write", 1)
	r := waitFor(t, background(func() (client.Message, error) { return f.BPop(t.Context(), 0, "t") }))
	expectText(t, "BPop", r.err, "NOREPLICAS")
	if r.took < client.RideOut {
		t.Errorf("gave up after %v, want %v", r.took, client.RideOut)
	}
	f.expect(state{Ready: queues{"t": {"a"}}, Buckets: buckets{"a": "t body"}})
}
