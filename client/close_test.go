package client_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
)

// Close ends those who wait, and leaves neither a goroutine nor a connection.
func TestCloseEndsWaits(t *testing.T) {
	f := start(t)
	connections, goroutines := f.connections(), runtime.NumGoroutine()
	c := f.open()
	var waits []<-chan result
	for n := range 50 {
		topic := fmt.Sprint("t", n%5)
		waits = append(waits, background(func() (client.Message, error) { return c.BPop(t.Context(), time.Hour, topic, "shared") }))
	}
	f.waits(c, "shared", len(waits))
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for _, wait := range waits {
		if r := waitFor(t, wait); !errors.Is(r.err, client.ErrClosed) {
			t.Errorf("error %v, want ErrClosed", r.err)
		}
	}
	until(t, "its connections are gone", func() bool { return f.connections() == connections })
	until(t, "its goroutines are gone", func() bool { return runtime.NumGoroutine() <= goroutines })
}

// Nor does a Client that is in use leave anything of waits that are over.
func TestWaitsLeaveNothing(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.Pop(t.Context(), "t")
	connections := f.connections()
	for _, topic := range []string{"t", "u", "v"} {
		ctx, cancel := context.WithCancel(t.Context())
		popped := f.bpop(ctx, topic)
		cancel()
		waitFor(t, popped)
	}
	until(t, "nobody listens", func() bool {
		return f.waiters("t")+f.waiters("u")+f.waiters("v") == 0 && f.connections() <= connections+1
	})
	until(t, "the topics are forgotten", func() bool { return client.Queues(f.Client) == 0 })
}

// Nor do calls that don't wait.
func TestPopsLeaveNothing(t *testing.T) {
	f := start(t)
	for n := range 20 {
		topic := fmt.Sprint("t", n)
		f.push(topic, topic)
		f.Pop(t.Context(), topic)
		f.Pop(t.Context(), topic)
		f.push(topic, topic)
		f.BPop(t.Context(), 0, topic)
	}
	until(t, "the topics are forgotten", func() bool { return client.Queues(f.Client) == 0 })
}

func TestClosedClient(t *testing.T) {
	f := start(t)
	f.Pop(t.Context(), "t")
	for range 2 {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	for name, call := range calls(f.Client, t.Context()) {
		if err := call(); !errors.Is(err, client.ErrClosed) {
			t.Errorf("%s: error %v, want ErrClosed", name, err)
		}
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range calls(f.Client, done) {
		if err := call(); !errors.Is(err, client.ErrClosed) {
			t.Errorf("%s with its context done: error %v, want ErrClosed", name, err)
		}
	}
}

func TestCloseLeavesTheCallersPool(t *testing.T) {
	f := start(t)
	pool := f.redis.Pool()
	c := client.New(pool)
	popped := background(func() (client.Message, error) { return c.BPop(t.Context(), 0, "t") })
	f.waits(c, "t", 1)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	waitFor(t, popped)
	conn := pool.Get()
	defer conn.Close()
	if _, err := conn.Do("PING"); err != nil {
		t.Errorf("the pool is closed: %v", err)
	}
}

// Close waits for the calls under way: each ends as if there were no Close, or
// was not begun.
func TestCloseWithCallsUnderWay(t *testing.T) {
	f := start(t)
	connections := f.connections()
	var pushed, popped atomic.Int64
	for range 20 {
		f.closeUnderLoad(&pushed, &popped)
		until(t, "its connections are gone", func() bool { return f.connections() <= connections+1 })
	}
	left := f.state()
	if got := int(popped.Load()) + len(left.Buckets); got != int(pushed.Load()) || len(left.Ready["t"]) != len(left.Buckets) {
		t.Errorf("%d pushed, %d popped, %d left, %d of them in the queue", pushed.Load(), popped.Load(), len(left.Buckets), len(left.Ready["t"]))
	}
}

func (f *fixture) closeUnderLoad(pushed, popped *atomic.Int64) {
	f.t.Helper()
	// Few connections, so that calls are waiting for one.
	c := client.OpenPool(client.PoolOptions{Addr: f.redis.Addr, MaxActive: 3})
	ctx := f.t.Context()
	works := []func() error{
		func() error {
			_, err := c.Push(ctx, client.Message{Topic: "t", Body: "b"}, 0)
			if err == nil {
				pushed.Add(1)
			}
			return err
		},
		func() error {
			_, err := c.Pop(ctx, "t")
			if err == nil {
				popped.Add(1)
			}
			return err
		},
		func() error {
			_, err := c.BPop(ctx, 0, "t")
			if err == nil {
				popped.Add(1)
			}
			return err
		},
		func() error { _, err := c.Get(ctx, "unknown"); return err },
		func() error { _, err := c.Remove(ctx, "unknown"); return err },
		func() error { return c.Reschedule(ctx, "unknown", 0) },
	}
	var workers sync.WaitGroup
	var done atomic.Int64
	for n := range 24 {
		workers.Go(func() {
			for {
				err := works[n%len(works)]()
				done.Add(1)
				switch {
				case errors.Is(err, client.ErrClosed):
					return
				case err != nil && !errors.Is(err, client.ErrEmpty) && !errors.Is(err, client.ErrNotFound):
					f.t.Error(err)
					return
				}
			}
		})
	}
	until(f.t, "work is under way", func() bool { return done.Load() > 100 })
	if err := c.Close(); err != nil {
		f.t.Error(err)
	}
	workers.Wait()
}

// A Redis that hangs does not make Close hang, which says what is unknown. The
// call under way gets its answer all the same.
func TestCloseOfHungRedis(t *testing.T) {
	t.Parallel()
	f := start(t)
	sent := make(chan struct{}, 100)
	c := client.New(tappedPool(f.redis.Addr, sent)) // without timeouts
	c.Pop(t.Context(), "t")
	drain(sent)
	f.push("a", "t")
	f.redis.Hang()
	popped := background(func() (client.Message, error) { return c.Pop(t.Context(), "t") })
	<-sent
	closed := background(func() (client.Message, error) { return client.Message{}, c.Close() })
	r := waitFor(t, closed)
	if r.err == nil || !strings.Contains(r.err.Error(), "unknown") || r.took < client.CloseWait {
		t.Errorf("Close = %v after %v", r.err, r.took)
	}
	f.redis.Resume()
	expectJob(t, waitFor(t, popped), "a")
}

// A call that still waits for a connection when Close gives up was not sent, and says so: it is
// not the caller's own ctx that has ended.
func TestCloseGivesUpWaitingCalls(t *testing.T) {
	t.Parallel()
	f := start(t)
	sent := make(chan struct{}, 100)
	pool := tappedPool(f.redis.Addr, sent)
	pool.MaxActive, pool.Wait = 1, true
	c := client.New(pool)
	c.Pop(t.Context(), "t")
	drain(sent)
	f.redis.Hang()
	popped := background(func() (client.Message, error) { return c.Pop(t.Context(), "t") })
	<-sent
	ctx, cancel := context.WithTimeout(t.Context(), 2*hangBound)
	defer cancel()
	results := map[string]<-chan result{}
	for name, ctx := range map[string]context.Context{"no end": context.Background(), "deadline": ctx} {
		results[name] = background(func() (client.Message, error) {
			_, err := c.Push(ctx, client.Message{ID: name, Topic: "u", Body: "b"}, 0)
			return client.Message{}, err
		})
	}
	until(t, "all wait for the connection", func() bool {
		underWay, gathered := c.Pushes()
		return underWay == len(results) && gathered == len(results)
	})
	if err := c.Close(); err == nil {
		t.Error("Close has no error")
	}
	for name, result := range results {
		if r := waitFor(t, result); !errors.Is(r.err, client.ErrClosed) || errors.Is(r.err, context.Canceled) {
			t.Errorf("%s: %v, want ErrClosed", name, r.err)
		}
	}
	f.redis.Resume()
	waitFor(t, popped)
	f.expect(state{})
}

// A FetchFunc that waits for a connection of the pool does not keep Close waiting.
func TestCloseWhileFetchFuncHasNoConnection(t *testing.T) {
	f := start(t)
	for _, timeout := range []time.Duration{0, time.Hour} {
		pool := client.NewPool(client.PoolOptions{Addr: f.redis.Addr, MaxActive: 1})
		defer pool.Close()
		conn := pool.Get()
		defer conn.Close()
		_, err := conn.Do("PING")
		check(t, err)
		c := client.New(pool)
		called := make(chan error, 1)
		o := client.FetchOptions{Topics: []client.FetchTopic{{Topic: "t"}}, Max: 1, Timeout: timeout}
		c.FetchFunc(t.Context(), o, func(_ []*client.Delivery, err error) { called <- err })
		until(t, "it is there", func() bool { all, _ := client.Reservers(c, "t"); return all == 1 })
		if err := c.Close(); err != nil {
			t.Errorf("timeout %v: %v", timeout, err)
		}
		if err := <-called; !errors.Is(err, client.ErrClosed) {
			t.Errorf("timeout %v: called back with %v", timeout, err)
		}
	}
}
