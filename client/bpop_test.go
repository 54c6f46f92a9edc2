package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
)

// Waiting takes nothing out of Redis, and a push with delay 0 ends it.
func TestBPopWakesOnPush(t *testing.T) {
	f := start(t)
	popped := f.bpop(t.Context(), "t")
	f.expect(state{})
	f.push("a", "t")
	expectJob(t, waitFor(t, popped), "a")
	f.expect(state{})
}

func TestBPopWakesOnMove(t *testing.T) {
	f := start(t)
	f.serve()
	popped := f.bpop(t.Context(), "t")
	from := f.clock()
	_, err := f.Push(t.Context(), client.Message{ID: "a", Topic: "t", Body: "body"}, 100*time.Millisecond)
	check(t, err)
	expectJob(t, waitFor(t, popped), "a")
	if waited := f.clock() - from; waited < 0.1 {
		t.Errorf("came after %f s", waited)
	}
	f.expect(state{})
}

func TestBPopOfSeveralTopics(t *testing.T) {
	f := start(t)
	for _, topic := range []string{"t", "u", "v"} {
		f.push("at once, "+topic, topic)
	}
	for _, want := range []string{"v", "t", "u"} {
		m, err := f.BPop(t.Context(), hangBound, "v", "t", "u")
		if err != nil || m.Topic != want {
			t.Errorf("BPop = %v, %v, want one of topic %s", m, err, want)
		}
	}
	for _, topic := range []string{"t", "u", "v"} {
		popped := background(func() (client.Message, error) { return f.BPop(t.Context(), 0, "t", "u", "v", "u") })
		for _, other := range []string{"t", "u", "v"} {
			f.waits(f.Client, other, 1)
		}
		f.push(topic, topic)
		expectJob(t, waitFor(t, popped), topic)
	}
	f.expect(state{})
}

func TestBPopTimeout(t *testing.T) {
	f := start(t)
	for _, timeout := range []time.Duration{1, time.Millisecond, 300 * time.Millisecond} {
		r := waitFor(t, background(func() (client.Message, error) { return f.BPop(t.Context(), timeout, "t", "u") }))
		if r.took < timeout {
			t.Errorf("returned after %v of %v", r.took, timeout)
		}
	}
	expectEmptyInTime(t, func(timeout time.Duration) error {
		_, err := f.BPop(t.Context(), timeout, "t", "u")
		return err
	})
}

// expectEmptyInTime checks that a call on empty queues fails with ErrEmpty when its timeout is
// over. If the machine was too busy for Redis to be asked by then, it is tried with a longer one.
func expectEmptyInTime(t *testing.T, call func(timeout time.Duration) error) {
	t.Helper()
	var err error
	for timeout := 10 * time.Millisecond; timeout < hangBound; timeout *= 2 {
		if err = call(timeout); errors.Is(err, client.ErrEmpty) {
			return
		}
	}
	t.Errorf("error %v, want ErrEmpty", err)
}

// A timeout that runs out at the moment at which the first look comes back empty ends the call too.
func TestBPopTimeoutDuringTheFirstLook(t *testing.T) {
	f := start(t)
	f.Pop(t.Context(), "t") // dials
	began := time.Now()
	f.Pop(t.Context(), "t")
	look := time.Since(began)
	for range 2000 {
		timeout := 1 + rand.N(2*look)
		r := waitFor(t, background(func() (client.Message, error) { return f.BPop(t.Context(), timeout, "t") }))
		if r.err == nil {
			t.Fatal("a job out of nothing")
		}
	}
}

func TestBPopCancelReturnsAtOnce(t *testing.T) {
	f := start(t)
	var worst time.Duration
	for range 50 {
		ctx, cancel := context.WithCancelCause(t.Context())
		popped := background(func() (client.Message, error) { return f.BPop(ctx, 0, "t") })
		f.waits(f.Client, "t", 1)
		began := time.Now()
		cancel(nil)
		r := waitFor(t, popped)
		worst = max(worst, time.Since(began))
		if !errors.Is(r.err, context.Canceled) {
			t.Fatalf("error %v, want context.Canceled", r.err)
		}
	}
	t.Logf("cancel to return: at most %v", worst)
	if worst > time.Second {
		t.Errorf("a cancelled BPop took %v to return", worst)
	}
	f.expect(state{})
}

func TestBPopDeadline(t *testing.T) {
	f := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if r := waitFor(t, background(func() (client.Message, error) { return f.BPop(ctx, 0, "t") })); !errors.Is(r.err, context.DeadlineExceeded) {
		t.Errorf("error %v, want context.DeadlineExceeded", r.err)
	}
}

// Cancelling races with pushing: every job is either popped, once, or still in Redis.
func TestBPopCancelLosesNothing(t *testing.T) {
	const rounds, workers = 3000, 6
	f := start(t)
	began := time.Now()
	f.raceCancelWithPush("first", hangBound)
	wake := time.Since(began)
	var mu sync.Mutex
	popped := map[string]int{}
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			for round := worker; round < rounds; round += workers {
				id := fmt.Sprint("job", round) // and topic
				r := f.raceCancelWithPush(id, rand.N(2*wake))
				switch {
				case r.err == nil:
					mu.Lock()
					popped[r.m.ID]++
					mu.Unlock()
				case !errors.Is(r.err, context.Canceled):
					t.Error(r.err)
				}
			}
		})
	}
	wg.Wait()
	f.Close() // waits for what is put back
	left := f.state()
	for round := range rounds {
		id := fmt.Sprint("job", round)
		queued := len(left.Ready[id])
		if _, kept := left.Buckets[id]; popped[id]+queued != 1 || kept != (queued == 1) {
			t.Errorf("%s: popped %d times, in the queue %d times, has a bucket: %v", id, popped[id], queued, kept)
		}
	}
	t.Logf("%d popped, %d left", len(popped), len(left.Ready))
	if len(popped) == 0 || len(left.Ready) == 0 {
		t.Error("the race was always won by the same side: this proves nothing")
	}
}

// raceCancelWithPush pushes the job that a BPop waits for, and cancels that so
// long after.
func (f *fixture) raceCancelWithPush(id string, after time.Duration) result {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	popped := background(func() (client.Message, error) { return f.BPop(ctx, 0, id) })
	for all := 0; all == 0; all, _ = client.Callers(f.Client, id) {
		runtime.Gosched()
	}
	time.AfterFunc(after, cancel)
	f.push(id, id)
	return waitFor(f.t, popped)
}

// A thousand calls share a connection and the pool's, and each gets a job.
func TestBPopOfManyCallers(t *testing.T) {
	const callers = 1000
	f := start(t)
	before := f.connections()
	results := make(chan result, callers)
	for range callers {
		go func() {
			m, err := f.BPop(t.Context(), 0, "t")
			results <- result{m: m, err: err}
		}()
	}
	f.waits(f.Client, "t", callers)
	if n := f.waiters("t"); n > 1 {
		t.Errorf("%d connections listen for one topic", n)
	}
	if n := f.connections() - before; n > 1+32 {
		t.Errorf("%d connections, want at most the pool's 32 and one that waits", n)
	}
	want := map[string]bool{}
	for n := range callers {
		id := fmt.Sprint("job", n)
		want[id] = true
		f.push(id, "t")
	}
	for range callers {
		r := waitFor(t, results)
		if r.err != nil || !want[r.m.ID] {
			t.Fatalf("BPop = %v, %v: twice, or unknown", r.m, r.err)
		}
		delete(want, r.m.ID)
	}
	f.expect(state{})
}

// However many topics are waited for, one connection hears of them all, and
// waiting asks Redis next to nothing.
func TestBPopOfManyTopics(t *testing.T) {
	const topics, callers = 200, 5
	f := start(t)
	before := f.connections()
	results := make(chan result, topics*callers)
	topic := func(n int) string { return fmt.Sprint("t", n) }
	for n := range topics * callers {
		go func() {
			m, err := f.BPop(t.Context(), 0, topic(n%topics))
			results <- result{m: m, err: err}
		}()
	}
	for n := range topics {
		f.waits(f.Client, topic(n), callers)
	}
	if n := f.connections() - before; n > 1+32 {
		t.Errorf("%d connections, want at most the pool's 32 and one that listens", n)
	}
	f.do("CONFIG", "RESETSTAT")
	began := f.clock()
	until(t, "3 s are over", func() bool { time.Sleep(100 * time.Millisecond); return f.clock() > began+3 })
	lookups := f.info("commandstats", "cmdstat_exists:calls=")
	if seconds := f.clock() - began; float64(lookups) > seconds+2 || lookups == 0 {
		t.Errorf("%d looks in %.1f s, want about one a second", lookups, seconds)
	}
	if n := f.info("commandstats", "cmdstat_evalsha:calls="); n > lookups {
		t.Errorf("%d scripts were run for %d looks although nothing happened", n, lookups)
	}
	for n := range topics * callers {
		f.push(fmt.Sprint(n), topic(n%topics))
	}
	seen := map[string]bool{}
	for range topics * callers {
		r := waitFor(t, results)
		if r.err != nil || seen[r.m.ID] {
			t.Fatalf("BPop = %v, %v: twice?", r.m, r.err)
		}
		seen[r.m.ID] = true
	}
	f.expect(state{})
}

// Others who wait for a queue, as Clients do, leave its order as it is.
func TestBPopKeepsOrder(t *testing.T) {
	const waiters, rounds, burst = 20, 20, 25
	f := start(t)
	for range waiters {
		conn, err := redis.Dial("tcp", f.redis.Addr)
		check(t, err)
		defer conn.Close()
		go func() {
			const queue = "delayer:ready_queue:t"
			for {
				if _, err := conn.Do("BLMOVE", queue, queue, "RIGHT", "RIGHT", 0); err != nil {
					return // the test is over
				}
			}
		}()
	}
	next := 0
	for range rounds {
		var ids, want []string
		for range burst {
			ids = append(ids, fmt.Sprint(next))
			next++
		}
		popped := background(func() (client.Message, error) { return f.BPop(t.Context(), 0, "t") })
		f.waits(f.Client, "t", 1)
		for _, id := range ids {
			f.push(id, "t")
		}
		for range burst {
			r := waitFor(t, popped)
			want = append(want, r.m.ID)
			if len(want) < burst {
				popped = background(func() (client.Message, error) { return f.BPop(t.Context(), 0, "t") })
			}
		}
		if !slices.Equal(ids, want) {
			t.Fatalf("pushed %q, popped %q", ids, want)
		}
	}
}

// Several Clients that wait for one topic get each job once.
func TestBPopOfManyClients(t *testing.T) {
	const clients, jobs = 10, 1000
	f := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	results := make(chan result, jobs)
	var consumers sync.WaitGroup
	for range clients {
		c := f.open()
		consumers.Go(func() {
			for {
				m, err := c.BPop(ctx, 0, "t")
				if ctx.Err() != nil && err != nil {
					return
				}
				results <- result{m: m, err: err}
			}
		})
	}
	for n := range jobs {
		f.push(fmt.Sprint(n), "t")
	}
	seen := map[string]bool{}
	for range jobs {
		r := waitFor(t, results)
		if r.err != nil || seen[r.m.ID] {
			t.Fatalf("BPop = %v, %v: twice?", r.m, r.err)
		}
		seen[r.m.ID] = true
	}
	cancel()
	consumers.Wait()
	f.expect(state{})
}

// Nothing is kept of topics that nobody asks for any more.
func TestTopicsLeaveNothing(t *testing.T) {
	f := start(t)
	for n := range 100 {
		topic := fmt.Sprint("t", n)
		f.push(topic, topic)
		_, err := f.BPop(t.Context(), 0, "u"+topic, topic)
		check(t, err)
		if _, err := f.Pop(t.Context(), topic); !errors.Is(err, client.ErrEmpty) {
			t.Fatal(err)
		}
	}
	if n := client.Queues(f.Client); n > 0 {
		t.Errorf("%d queues are kept", n)
	}
}

// Of several topics the first that has a job is served, also when many ask.
func TestBPopPrefersTheFirstTopic(t *testing.T) {
	const workers, each = 8, 300
	f := start(t)
	for _, topic := range []string{"low", "high"} {
		batch := jobs(0, each, topic, 0)
		for i := range batch {
			batch[i].ID += topic
		}
		_, err := f.PushBatch(t.Context(), batch)
		check(t, err)
	}
	var mu sync.Mutex
	high, early := 0, 0
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				m, err := f.BPop(t.Context(), 100*time.Millisecond, "high", "low")
				if err != nil {
					return
				}
				mu.Lock()
				switch {
				case m.Topic == "high":
					high++
				case high < each-workers: // others may have one in hand
					early++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if high != each || early > 0 {
		t.Errorf("%d of %d jobs of the first topic came, %d of the other before them", high, each, early)
	}
}
