package client_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// A reply that takes longer than the read timeout over a slow link is not lost: the timeout bounds the silence, not the
// size.
func TestSlowLink(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	const jobs, size = 6, 1 << 20
	f := start(t, undivided, alone)
	proxy := redistest.StartProxy(t, f.Addr)
	f.behind(proxy.Addr)
	proxy.Limit(3 << 19) // the large reply takes 7 s
	// The system accepts about 3 MB before it has sent them. So a push gets no reply for a while, although the link is
	// not silent.
	var counted counts
	c := f.openPool(client.PoolOptions{Addr: proxy.Addr, ReadTimeout: 6 * time.Second, WriteTimeout: time.Minute}, counted.option())
	var batch []client.Item
	var want []client.Message
	for n := range jobs + 1 {
		m := client.Message{ID: fmt.Sprint(n), Topic: "t", Body: strings.Repeat(fmt.Sprint(n%10), size)}
		if n == jobs {
			m.Body = strings.Repeat("x", 10*size)
		}
		batch, want = append(batch, client.Item{Message: m}), append(want, m)
	}
	check(t, errOf(c.PushBatch(t.Context(), batch)))
	var popped []client.Message
	for len(popped) < jobs-2 {
		list, err := c.Fetch(t.Context(), clienttest.Popped("t", jobs))
		check(t, err)
		for _, d := range list {
			popped = append(popped, d.Message)
		}
	}
	for range 3 {
		m, err := c.BPop(t.Context(), hangBound, "t")
		check(t, err)
		popped = append(popped, m)
	}
	if lost := counted.lost.Load(); !reflect.DeepEqual(popped, want) || lost != 0 {
		t.Errorf("got %q, %d lost", messageIDs(popped), lost)
	}
	f.Expect(state{})
}

// If Redis falls silent in the middle of a reply, the Client notices, and jobs that may be lost with the reply are
// reported and counted.
func TestSilenceWithinAnAnswer(t *testing.T) {
	t.Parallel()
	f := start(t, undivided, alone)
	f.push("small", "u")
	f.put(client.Message{ID: "large", Topic: "t", Body: strings.Repeat("x", 1<<20)}, 0)
	proxy := redistest.StartProxy(t, f.Addr)
	f.behind(proxy.Addr)
	proxy.FallSilent(100 << 10)
	var counted counts
	c := f.openPool(client.PoolOptions{Addr: proxy.Addr, ReadTimeout: time.Second}, counted.option())
	if m, err := c.Pop(t.Context(), "u"); err != nil || m.ID != "small" {
		t.Fatalf("Pop = %v, %v", m, err)
	}
	_, err := c.Pop(t.Context(), "t")
	expectErr(t, "Pop", err, client.ErrLost)
	expectTimeout(t, "Pop", err)
	if lost := counted.lost.Load(); lost != 1 {
		t.Errorf("%d jobs are counted as lost, want 1", lost)
	}
	f.Expect(state{})
}

// expectTimeout checks that the error is a connection's timeout.
func expectTimeout(t testing.TB, call string, err error) {
	t.Helper()
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("%s: error %v, want a timeout", call, err)
	}
}

// Callers of BPop and Pop are served in the order of their calls. A later call does not overtake earlier ones even if
// it finds unannounced jobs: it polls for the waiting callers first, and gets one of the remaining jobs.
func TestCallersAreServedInTheirOrder(t *testing.T) {
	const callers = 30
	later := maps.Clone(waiters)
	later["none"] = nil
	later["Pop"] = func(ctx context.Context, c *client.Client, _ time.Duration, _ ...string) (client.Message, error) {
		return c.Pop(ctx, "t")
	}
	later["BPop of several"] = func(ctx context.Context, c *client.Client, timeout time.Duration, _ ...string) (client.Message, error) {
		return c.BPop(ctx, timeout, "u", "t")
	}
	for name, later := range later {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, undivided)
			results := make([]<-chan result, callers)
			for n := range results {
				results[n] = f.waiter(t.Context(), f.Client, "t")
			}
			if later == nil {
				for n := range callers {
					f.push(fmt.Sprint(n), "t")
				}
			} else {
				ids := redis.Args{"delayer:ready_queue:t"}
				for n := range callers + 1 {
					f.Do("HSET", "delayer:job_bucket:"+fmt.Sprint(n), "topic", "t", "body", "b")
					ids = ids.Add(n)
				}
				f.Do("LPUSH", ids...)
				expectJob(t, inBackground(t.Context(), later, f.Client, hangBound, "t"), fmt.Sprint(callers))
			}
			for n := range callers {
				expectJob(t, results[n], fmt.Sprint(n))
			}
		})
	}
}

// A logger that blocks delays no other call.
func TestStuckLogger(t *testing.T) {
	f := start(t, alone)
	stuck, resume := make(chan struct{}), make(chan struct{})
	logger := slog.New(slog.NewTextHandler(writerFunc(func(b []byte) (int, error) {
		close(stuck)
		<-resume
		return len(b), nil
	}), nil))
	c := f.as("u", "~delayer:* +@all -@dangerous", client.WithLogger(logger))
	defer c.Close()
	defer close(resume)
	bpop(t.Context(), c, 0, "t")
	<-stuck
	expectError(t, failing(func() error { return errOf(c.Pop(t.Context(), "u")) }), client.ErrEmpty)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
