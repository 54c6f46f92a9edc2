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

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
)

// Close ends waiting calls, and leaves neither a goroutine nor a connection.
func TestCloseEndsWaits(t *testing.T) {
	f := start(t, alone)
	connections, goroutines := f.connections(), ourGoroutines()
	c := f.open()
	var waits []<-chan result
	for n := range 20 {
		for _, take := range waiters {
			waits = append(waits, inBackground(t.Context(), take, c, time.Hour, fmt.Sprint("t", n%5), "shared"))
		}
	}
	f.waits(c, "shared", len(waits))
	if ourGoroutines() <= goroutines {
		t.Error("the waiting calls are not among our goroutines")
	}
	check(t, c.Close())
	for _, wait := range waits {
		expectError(t, wait, client.ErrClosed)
	}
	until(t, "its connections are gone", func() bool { return f.connections() == connections })
	until(t, "its goroutines are gone", func() bool { return ourGoroutines() <= goroutines })
}

// ourGoroutines counts the goroutines that run the client's code. It ignores redistest's goroutines, which start nodes
// in advance.
func ourGoroutines() (n int) {
	stacks := make([]byte, 4<<20)
	for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		ours := func(room string) bool { return strings.Contains(stack, "github.com/mix-basic/delayer/"+room) }
		if !ours("internal/testing/redistest.") && (ours("client.") || ours("internal/wait.") || ours("internal/batch.") || ours("internal/redisconn.")) {
			n++
		}
	}
	return n
}

func TestClosedClient(t *testing.T) {
	f := start(t)
	d := f.reserveAll(f.Client, 1)[0]
	before := f.State()
	for range 2 {
		check(t, f.Close())
	}
	for _, ctx := range []context.Context{t.Context(), done(t.Context())} {
		for name, call := range allCalls(f.Client, ctx, d) {
			expectErr(t, name, call(), client.ErrClosed)
		}
	}
	f.Expect(before)
}

func TestCloseLeavesTheCallersRedis(t *testing.T) {
	f := start(t)
	r := f.reached(client.PoolOptions{})
	c := f.on(r)
	popped := f.waiter(t.Context(), c, "t")
	check(t, c.Close())
	expectError(t, popped, client.ErrClosed)
	check(t, f.on(r).Ping(t.Context()))
}

// Close waits for the calls in progress: each call ends as if there were no Close, or never begins.
func TestCloseWithCallsUnderWay(t *testing.T) {
	f := start(t, alone)
	connections := f.connections()
	var pushed, popped atomic.Int64
	for range 20 {
		f.closeUnderLoad(&pushed, &popped)
		until(t, "its connections are gone", func() bool { return f.connections() <= connections+1 })
	}
	left := f.State()
	if got := int(popped.Load()) + len(left.Buckets); got != int(pushed.Load()) || len(left.Ready["t"]) != len(left.Buckets) {
		t.Errorf("%d pushed, %d popped, %d left, %d of them in the queue", pushed.Load(), popped.Load(), len(left.Buckets), len(left.Ready["t"]))
	}
}

func (f *fixture) closeUnderLoad(pushed, popped *atomic.Int64) {
	f.TB.Helper()
	// Few connections, so that calls wait for one.
	c := f.openPool(client.PoolOptions{MaxActive: 3})
	ctx := f.TB.Context()
	count := func(n *atomic.Int64, err error) error {
		if err == nil {
			n.Add(1)
		}
		return err
	}
	works := []func() error{
		func() error { return count(pushed, errOf(c.Push(ctx, client.Message{Topic: "t", Body: "b"}, 0))) },
		func() error { return count(popped, errOf(c.Pop(ctx, "t"))) },
		func() error { return count(popped, errOf(c.BPop(ctx, 0, "t"))) },
		func() error { return errOf(c.Get(ctx, "unknown")) },
		func() error { return errOf(c.Remove(ctx, "unknown")) },
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
					f.TB.Error(err)
					return
				}
			}
		})
	}
	until(f.TB, "work is under way", func() bool { return done.Load() > 100 })
	if err := c.Close(); err != nil {
		f.TB.Error(err)
	}
	workers.Wait()
}

// popFromHungRedis makes Redis hang, and sends it a Pop.
func (f *fixture) popFromHungRedis(c *client.Client, sent <-chan struct{}) <-chan result {
	f.Hang()
	popped := background(func() (client.Message, error) { return c.Pop(f.TB.Context(), "t") })
	<-sent
	return popped
}

// Close returns even if Redis hangs, and its error names what is unknown. The call in progress still gets its reply. A
// call that still waits for a connection was not sent, and its error reports this, because the caller's own ctx has not
// ended.
func TestCloseOfHungRedis(t *testing.T) {
	t.Parallel()
	f := start(t, alone, undivided, onePool)
	f.push("a", "t")
	c, pool, sent := f.tapped()
	one := client.Conns(pool).(*redis.Pool)
	one.MaxActive, one.Wait = 1, true
	popped := f.popFromHungRedis(c, sent)
	results := []<-chan result{
		failing(func() error { return errOf(c.Get(t.Context(), "a")) }),
		failing(func() error { return errOf(c.BPop(context.Background(), 0, "v")) }),
		failing(func() error {
			return errOf(c.PushBatch(t.Context(), []client.Item{{Message: client.Message{Topic: "u", Body: "b"}}}))
		}),
	}
	for _, ctx := range []context.Context{context.Background(), deadline(t, 2*hangBound), t.Context()} {
		results = append(results, failing(func() error { return errOf(c.Push(ctx, client.Message{Topic: "u", Body: "b"}, 0)) }))
	}
	await(t, 3, 2, c.Pushes) // two make their own calls, one waits for the next batch
	r := arrival(t, failing(c.Close))
	if expectText(t, "Close", r.err, "unknown"); r.took < client.CloseWait {
		t.Errorf("Close after %v", r.took)
	}
	for _, result := range results {
		if r := arrival(t, result); !errors.Is(r.err, client.ErrClosed) || errors.Is(r.err, context.Canceled) {
			t.Errorf("%v, want ErrClosed", r.err)
		}
	}
	f.Continue()
	expectJob(t, popped, "a")
	f.Expect(state{})
}
