package client_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/pooltest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// Waiting callers tolerate cut connections and a restart of Redis.
func TestWaitersSurviveRestartAndCutConnections(t *testing.T) {
	t.Parallel()
	f := start(t, alone)
	taken := map[string]<-chan result{}
	for name, take := range waiters {
		c := f.open()
		taken[name] = f.waiting(c, func() <-chan result { return inBackground(t.Context(), take, c, 0, name) }, name)
	}
	for _, trouble := range []func(){
		f.killConnections,
		func() { f.Do("CLIENT", "KILL", "TYPE", "pubsub") },
		func() { f.killConnections(); f.Do("CLIENT", "KILL", "TYPE", "pubsub") },
		func() { f.Kill(); f.Restart() },
	} {
		trouble()
		for name := range waiters {
			until(t, "it waits again", func() bool { return f.Waiters(name) == 1 })
		}
	}
	for name := range waiters {
		f.pushAnew(name, name)
		expectJob(t, taken[name], name)
	}
}

// pushAnew is push with a new Client, whose connections were never cut.
func (f *fixture) pushAnew(id, topic string) {
	f.TB.Helper()
	(&fixture{f.open(), f.Server}).push(id, topic)
}

// A longer outage is an error for all callers that are waiting or have come since. This also holds if other callers
// wait for some of their topics, so that each topic is polled separately. Later calls work.
func TestWaitersGiveUpOnOutage(t *testing.T) {
	t.Parallel()
	f := start(t, alone)
	clients, results := map[string]*client.Client{}, map[string][]<-chan result{}
	call := func() {
		for name, c := range clients {
			for _, topics := range [][]string{{"t"}, {"t", "u"}, {"t", "u", fmt.Sprint("own", len(results[name]))}} {
				results[name] = append(results[name], inBackground(t.Context(), waiters[name], c, 0, topics...))
			}
		}
	}
	for name := range waiters {
		clients[name] = f.open()
	}
	call()
	for name, c := range clients {
		f.waits(c, "t", len(results[name]))
	}
	f.Kill()
	call()
	for name := range clients {
		for _, r := range results[name] {
			r := arrival(t, r)
			var dial *net.OpError
			if !errors.As(r.err, &dial) || errors.Is(r.err, client.ErrLost) && name != "BPop" || errors.Is(r.err, client.ErrEmpty) {
				t.Errorf("%s: error %v, want the network's", name, r.err)
			}
			if r.took < client.RetryWindow {
				t.Errorf("%s gave up after %v, want %v", name, r.took, client.RetryWindow)
			}
		}
	}
	f.Restart()
	for name, c := range clients {
		popped := f.waiter(t.Context(), c, name)
		f.pushAnew(name, name)
		expectJob(t, popped, name)
	}
}

// While Redis is away BPop does not retry in a tight loop.
func TestRetriesAreSpaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		c := clienttest.On(&redis.Pool{Dial: func() (redis.Conn, error) {
			dials.Add(1)
			return nil, errors.New("refused")
		}})
		defer c.Close()
		expectText(t, "BPop", errOf(c.BPop(t.Context(), 0, "t")), "refused")
		if n := dials.Load(); n < 4 || n > 20 {
			t.Errorf("%d attempts in %v", n, client.RetryWindow)
		}
	})
}

func (f *fixture) killConnections() {
	f.TB.Helper()
	f.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
}

// No call hangs if Redis hangs: each call ends with its context, except calls that take jobs, which wait for the reply
// until the connection's timeout.
func TestHungRedis(t *testing.T) {
	t.Parallel()
	f := start(t, alone)
	var counted counts
	c := f.openPool(client.PoolOptions{ReadTimeout: 100 * time.Millisecond}, counted.option())
	d := f.reserveAll(f.Client, 1)[0]
	until(t, "a hasty one has dialled", func() bool { return errors.Is(errOf(c.Pop(t.Context(), "t")), client.ErrEmpty) })
	f.Hang()
	defer f.Continue()
	expectErr(t, "Pop", errOf(c.Pop(t.Context(), "t")), client.ErrLost)
	for name := range allCalls(f.Client, nil, d) {
		takes := slices.Contains([]string{"Pop", "BPop", "Reserve", "Fetch"}, name)
		of, times := f.Client, 20
		if takes {
			of, times = c, 1
		}
		quickest := time.Duration(math.MaxInt64)
		for range times {
			call := allCalls(of, deadline(t, 5*time.Millisecond), d)[name]
			r := arrival(t, failing(call))
			quickest = min(quickest, r.took)
			if !takes && !errors.Is(r.err, context.DeadlineExceeded) || r.err == nil || errors.Is(r.err, client.ErrEmpty) {
				t.Errorf("%s with deadline: error %v", name, r.err)
			}
		}
		const soon = client.RetryWindow / 2 // less than any timeout of f's connections
		if !takes && quickest > soon {
			t.Errorf("%s with deadline: all calls took %v or more, want them to end soon", name, quickest)
		}
	}
	if counted.lost.Load() == 0 {
		t.Error("no answer is counted as lost")
	}
}

func deadline(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// A call whose context or timeout ends while its poll is in flight gets the job that Redis took: no job is lost or put
// back.
func TestCancelledCallGetsItsJob(t *testing.T) {
	t.Parallel()
	f := start(t, alone, undivided)
	takers := maps.Clone(waiters)
	takers["Pop"] = func(ctx context.Context, c *client.Client, _ time.Duration, _ ...string) (client.Message, error) {
		return c.Pop(ctx, "t")
	}
	takers["Fetch with Pop"] = func(ctx context.Context, c *client.Client, _ time.Duration, _ ...string) (client.Message, error) {
		list, err := c.Fetch(ctx, clienttest.Popped("t", 1))
		return messageOf(append(list, nil)[0], err)
	}
	takers["Fetch without a wait"] = func(ctx context.Context, c *client.Client, _ time.Duration, _ ...string) (client.Message, error) {
		list, err := c.Fetch(ctx, clienttest.Ready("t", 1, time.Minute))
		return messageOf(append(list, nil)[0], err)
	}
	for name, take := range takers {
		for _, topics := range [][]string{{"t"}, {"u", "t"}} {
			for _, timeout := range []time.Duration{0, 10 * time.Millisecond} {
				t.Run(fmt.Sprint(name, topics, timeout), func(t *testing.T) {
					f := f.with(t)
					f.seed(all(ready("a", "t"), ready("b", "t"))...)
					c, _, sent := f.tapped()
					f.Hang()
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					call := inBackground(ctx, take, c, timeout, topics...)
					arrival(t, sent) // Redis will take the job when it goes on
					if timeout == 0 {
						cancel()
					}
					time.Sleep(timeout + 20*time.Millisecond) // by now all calls that end have ended
					if len(call) > 0 {
						t.Errorf("returned before the answer: %+v", <-call)
					}
					f.Continue()
					expectJob(t, call, "a")
					want := takenBy(name, "a", "old")
					want.Ready, want.Buckets["b"] = queues{"t": {"b"}}, "t old"
					f.Expect(want)
				})
			}
		}
	}
}

// While connections are cut all the time and calls are cancelled, each job is popped once, stays in the queue, or is
// counted as lost.
func TestNothingTwiceWhileConnectionsAreCut(t *testing.T) {
	const jobs, workers = 1000, 8
	f := start(t, undivided, alone)
	f.Do("EVAL", seedReady, 0, jobs)
	killer := f.dial()
	stop := redistest.Background(t, func(ctx context.Context) error {
		for ctx.Err() == nil {
			killer.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			time.Sleep(5 * time.Millisecond)
		}
		return nil
	})
	var counted counts
	c := f.open(counted.option())
	var consumers sync.WaitGroup
	var popped tally
	var done atomic.Int64
	for range workers {
		consumers.Go(func() {
			for done.Load()+counted.lost.Load() < jobs*9/10 {
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
	stop()
	f.HangUp() // that one is killed, too
	left := map[string]bool{}
	for _, id := range f.State().Ready["t"] {
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
	t.Logf("%d popped, %d left, %d lost with their answers, at most %d of them by the count", popped.total(), len(left), missing, counted.lost.Load())
	if lost := counted.lost.Load(); int64(missing) > lost {
		t.Errorf("%d jobs are gone, but only %d were counted as lost", missing, lost)
	}
}

// seedReady creates ARGV[1] ready jobs.
const seedReady = `for i = 1, tonumber(ARGV[1]) do
	redis.call('HSET', 'delayer:job_bucket:' .. i, 'topic', 't', 'body', 'b')
	redis.call('LPUSH', 'delayer:ready_queue:t', i)
end`

// tapped returns a Client without timeouts, its pool, and a channel that receives after each write. The Client has a
// connection, and Redis has loaded its scripts.
func (f *fixture) tapped() (c *client.Client, pool *client.Redis, sent chan struct{}) {
	f.TB.Helper()
	sent = make(chan struct{}, 100)
	pool = f.onWrite(func() { sent <- struct{}{} })
	c = f.on(pool)
	c.Pop(f.TB.Context(), "other")
	c.Fetch(f.TB.Context(), clienttest.Ready("other", 1, 0))
	for len(sent) > 0 {
		<-sent
	}
	return c, pool, sent
}

// onWrite returns a pool that calls sent after each write.
func (f *fixture) onWrite(sent func()) *client.Redis {
	redistest.NotExternal(f.TB, "watches what its connections carry")
	return pooltest.Through(f.Server, 1, func(_ context.Context, conn net.Conn) net.Conn { return tap{conn, sent} })
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

// On a Redis with full memory moves, waits and pops continue. internal/store/TestAtMaxmemory has what is refused.
func TestMaxmemory(t *testing.T) {
	t.Parallel()
	f := start(t, alone)
	f.push("ready", "t")
	f.put(client.Message{ID: "waiting", Topic: "t", Body: "body"}, 500*time.Millisecond)
	f.Do("CONFIG", "SET", "maxmemory", 1)
	expectText(t, "Push", errOf(f.Push(t.Context(), message("new"), 0)), "OOM")
	expectJob(t, bpop(t.Context(), f.Client, 0, "t"), "ready")
	popped := bpop(t.Context(), f.Client, 0, "t")
	f.bears(f.Client, "t") // it cannot be registered as a waiter
	f.serve()
	expectJob(t, popped, "waiting")
	f.Expect(state{})

	f.Do("CONFIG", "SET", "maxmemory", 0)
	popped = bpop(t.Context(), f.Client, 0, "t")
	f.push("a", "t")
	expectJob(t, popped, "a")
}

// After a power cut with the append-only file on, all confirmed changes are still there.
func TestPowerCut(t *testing.T) {
	f := start(t, settings("--appendonly", "yes", "--appendfsync", "always"))
	f.waiter(t.Context(), f.Client, "never")
	var pushed, removed, unknown, popped tally
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for n := 0; ; n++ {
				id := fmt.Sprint(worker, "-", n)
				if _, err := f.Push(t.Context(), client.Message{ID: id, Topic: "t", Body: "b"}, time.Duration(n%2)*time.Hour); err != nil {
					return // Redis is down
				}
				pushed.add(id)
				if n%5 != 0 {
					continue
				}
				was, err := f.Remove(t.Context(), id)
				if err != nil {
					unknown.add(id)
					return
				}
				if was != "" {
					removed.add(id)
				}
			}
		})
	}
	until(t, "work is under way", func() bool { return pushed.total() > 200 && removed.total() > 40 })
	f.Kill()
	wg.Wait()
	f.Restart()
	after := f.State()
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
