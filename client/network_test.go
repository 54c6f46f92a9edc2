package client_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/redistest"
)

// Over a slow link nothing is lost that takes longer than the read timeout: it
// bounds silence, not size.
func TestSlowLink(t *testing.T) {
	const jobs, size = 12, 1 << 20
	f := start(t)
	proxy := redistest.StartProxy(t, f.redis.Addr)
	proxy.Limit(6 << 20)
	c := client.OpenPool(client.PoolOptions{Addr: proxy.Addr, ReadTimeout: time.Second})
	defer c.Close()
	var batch []client.Delayed
	for n := range jobs {
		batch = append(batch, client.Delayed{Message: client.Message{ID: fmt.Sprint(n), Topic: "t", Body: strings.Repeat(fmt.Sprint(n%10), size)}})
	}
	batch = append(batch, client.Delayed{Message: client.Message{ID: "large", Topic: "t", Body: strings.Repeat("x", 10*size)}})
	_, err := f.PushBatch(t.Context(), batch)
	check(t, err)
	popped, err := c.PopBatch(t.Context(), "t", jobs-2)
	for range 3 {
		if err == nil {
			var m client.Message
			m, err = c.BPop(t.Context(), hangBound, "t")
			popped = append(popped, m)
		}
	}
	if err != nil || len(popped) != len(batch) || c.Counters().Lost != 0 {
		t.Fatalf("%d of %d jobs, %d lost: %v", len(popped), len(batch), c.Counters().Lost, err)
	}
	for n, m := range popped {
		if m != batch[n].Message {
			t.Errorf("job %d is %s with %d bytes", n, m.ID, len(m.Body))
		}
	}
	f.expect(state{})
}

// Over a slow link a ReserveBatch does not take jobs for so long that the leases of the first
// of them end meanwhile.
func TestReserveBatchOverASlowLink(t *testing.T) {
	const jobs, size, lease = 5, 1 << 20, 3 * time.Second
	f := start(t)
	proxy := redistest.StartProxy(t, f.redis.Addr)
	proxy.Limit(size)
	c := client.OpenPool(client.PoolOptions{Addr: proxy.Addr})
	defer c.Close()
	for n := range jobs {
		_, err := f.Push(t.Context(), client.Message{ID: fmt.Sprint(n), Topic: "t", Body: strings.Repeat("x", size)}, 0)
		check(t, err)
	}
	deliveries, err := c.ReserveBatch(t.Context(), "t", jobs, lease)
	if err != nil || len(deliveries) == 0 {
		t.Fatalf("%d jobs, %v", len(deliveries), err)
	}
	if _, err := c.AckBatch(t.Context(), deliveries); err != nil {
		t.Errorf("of %d jobs: %v", len(deliveries), err)
	}
}

// A Redis that falls silent in the midst of an answer is found out, and what may
// be lost with it is said and counted.
func TestSilenceWithinAnAnswer(t *testing.T) {
	f := start(t)
	f.push("small", "u")
	_, err := f.Push(t.Context(), client.Message{ID: "large", Topic: "t", Body: strings.Repeat("x", 1<<20)}, 0)
	check(t, err)
	c := client.New(client.NewPool(client.PoolOptions{Addr: stutter(t, f.redis.Addr, 100<<10), ReadTimeout: 100 * time.Millisecond}))
	defer c.Close()
	if m, err := c.Pop(t.Context(), "u"); err != nil || m.ID != "small" {
		t.Fatalf("Pop = %v, %v", m, err)
	}
	_, err = c.Pop(t.Context(), "t")
	var timeout net.Error
	if !errors.Is(err, client.ErrLost) || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("error %v, want ErrLost by a timeout", err)
	}
	if lost := c.Counters().Lost; lost != 1 {
		t.Errorf("%d jobs are counted as lost, want 1", lost)
	}
	f.expect(state{})
}

// stutter is an address that leads to Redis, and passes on so many bytes of what
// Redis answers on each connection, and no more.
func stutter(t *testing.T, addr string, bytes int) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", addr)
			if err != nil {
				return
			}
			t.Cleanup(func() { from.Close(); to.Close() })
			go func() {
				buffer := make([]byte, 32<<10)
				for {
					n, err := from.Read(buffer)
					if err != nil {
						return
					}
					to.Write(buffer[:n])
				}
			}()
			go func() {
				buffer := make([]byte, 32<<10)
				for left := bytes; ; left -= len(buffer) {
					n, err := to.Read(buffer)
					if err != nil {
						return
					}
					if left > 0 {
						from.Write(buffer[:min(n, left)])
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// An address that moves to another master, while the old one lives on as its
// replica: pooled connections to the old one answer every PING, and no write.
func TestAddressMoves(t *testing.T) {
	oldMaster, newMaster := start(t), start(t)
	proxy := redistest.StartProxy(t, oldMaster.redis.Addr)
	c := client.OpenPool(client.PoolOptions{Addr: proxy.Addr})
	defer c.Close()
	check(t, c.WarmUp(t.Context()))
	waiting := background(func() (client.Message, error) { return c.BPop(t.Context(), 0, "t") })
	oldMaster.waits(c, "t", 1)

	oldMaster.demote(proxy, newMaster, true)
	message := client.Message{ID: "a", Topic: "t", Body: "b"}
	for name, call := range map[string]func() error{
		"Push": func() error {
			_, err := c.Push(t.Context(), client.Message{ID: "b", Topic: "u", Body: "b"}, 0)
			return err
		},
		"PushBatch": func() error {
			_, err := c.PushBatch(t.Context(), []client.Delayed{{Message: client.Message{ID: "c", Topic: "u", Body: "b"}}})
			return err
		},
		"Reschedule": func() error { return c.Reschedule(t.Context(), "b", 0) },
	} {
		if err := call(); err != nil && !(name == "Reschedule" && errors.Is(err, client.ErrNotFound)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.Push(t.Context(), message, 0); err != nil {
		t.Error(err)
	}
	expectJob(t, waitFor(t, waiting), "a")
	batch, err := c.PopBatch(t.Context(), "u", 10)
	ids := messageIDs(batch)
	slices.Sort(ids)
	if err != nil || !slices.Equal(ids, []string{"b", "c"}) {
		t.Errorf("PopBatch = %v, %v", ids, err)
	}
	newMaster.expect(state{})
}

// A user with Redis 7's default rights may not listen: BPop asks instead, and
// says so once.
func TestUserWithoutChannels(t *testing.T) {
	f := start(t)
	f.do("ACL", "SETUSER", "u", "on", ">p", "~delayer:*", "+@all", "-@dangerous")
	var log lockedLog
	c := client.OpenPool(client.PoolOptions{Addr: f.redis.Addr, Username: "u", Password: "p"}, client.WithLogger(log.logger()))
	defer c.Close()
	for n := range 3 {
		id := fmt.Sprint(n)
		popped := background(func() (client.Message, error) { return c.BPop(t.Context(), 0, "t") })
		until(t, "BPop waits", func() bool { _, waiting := client.Callers(c, "t"); return waiting == 1 })
		f.push(id, "t")
		expectJob(t, waitFor(t, popped), id)
	}
	popped := background(func() (client.Message, error) { return c.BPop(t.Context(), 0, "t") })
	looks := func() int { return f.info("commandstats", "cmdstat_exists:calls=") }
	began, before := f.clock(), looks()
	until(t, "it has asked 20 times", func() bool { return looks() >= before+20 })
	if took := f.clock() - began; took < 0.8 || took > 10 { // 1 s, were the machine idle
		t.Errorf("asked 20 times in %.1f s", took)
	}
	f.push("last", "t")
	expectJob(t, waitFor(t, popped), "last")
	if lines := log.lines(); len(lines) != 1 || !strings.Contains(lines[0], "&delayer:wake:* +subscribe") {
		t.Errorf("said %q, want one line with the ACL words", lines)
	}
	f.expect(state{})
}

// What an old server moves is not announced: it is found by the look once a second.
func TestBPopOfAnOldServer(t *testing.T) {
	f := start(t)
	popped := f.bpop(t.Context(), "t")
	f.do("HSET", "delayer:job_bucket:a", "topic", "t", "body", "b")
	f.do("LPUSH", "delayer:ready_queue:t", "a")
	expectJob(t, waitFor(t, popped), "a")

	// Nor is it if EXISTS or LLEN are denied.
	for n, missing := range []string{"exists", "llen", "exists -llen"} {
		id := fmt.Sprint(n)
		f.do("ACL", "SETUSER", id, "on", ">p", "~*", "&*", "+@all")
		for word := range strings.FieldsSeq("-" + missing) {
			f.do("ACL", "SETUSER", id, word)
		}
		c := client.OpenPool(client.PoolOptions{Addr: f.redis.Addr, Username: id, Password: "p"})
		defer c.Close()
		popped := background(func() (client.Message, error) { return c.BPop(t.Context(), 0, "t", "other") })
		f.waits(c, "t", 1)
		f.do("HSET", "delayer:job_bucket:"+id, "topic", "t", "body", "b")
		f.do("LPUSH", "delayer:ready_queue:t", id)
		expectJob(t, waitFor(t, popped), id)
	}
	f.expect(state{})
}

// Callers are served in the order in which they came, be it by BPop or Pop.
func TestCallersAreServedInTheirOrder(t *testing.T) {
	const callers = 30
	f := start(t)
	results := make([]<-chan result, callers)
	for n := range results {
		results[n] = background(func() (client.Message, error) { return f.BPop(t.Context(), 0, "t") })
		f.waits(f.Client, "t", n+1)
	}
	for n := range callers {
		f.push(fmt.Sprint(n), "t")
		expectJob(t, waitFor(t, results[n]), fmt.Sprint(n))
	}
	f.expect(state{})
}

// Nor does a call that comes later overtake them, when it is what finds jobs that
// nobody has heard of: it asks for those who wait, and gets what is left.
func TestLaterCallsDoNotOvertake(t *testing.T) {
	const callers = 30
	for name, later := range map[string]func(*fixture) (client.Message, error){
		"Pop":             func(f *fixture) (client.Message, error) { return f.Pop(t.Context(), "t") },
		"BPop":            func(f *fixture) (client.Message, error) { return f.BPop(t.Context(), hangBound, "t") },
		"BPop of several": func(f *fixture) (client.Message, error) { return f.BPop(t.Context(), hangBound, "u", "t") },
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			results := make([]<-chan result, callers)
			for n := range results {
				results[n] = background(func() (client.Message, error) { return f.BPop(t.Context(), 0, "t") })
				f.waits(f.Client, "t", n+1)
			}
			ids := redis.Args{"delayer:ready_queue:t"}
			for n := range callers + 1 {
				f.do("HSET", "delayer:job_bucket:"+fmt.Sprint(n), "topic", "t", "body", "b")
				ids = ids.Add(n)
			}
			f.do("LPUSH", ids...)
			m, err := later(f)
			if err != nil || m.ID != fmt.Sprint(callers) {
				t.Errorf("%v, %v, want the last job", m, err)
			}
			for n := range callers {
				expectJob(t, waitFor(t, results[n]), fmt.Sprint(n))
			}
			f.expect(state{})
		})
	}
}

// Pops that ask all the time do not starve those who wait.
func TestPopsDoNotStarveBPop(t *testing.T) {
	const waiters, pollers = 50, 4
	f := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	results := make(chan result, waiters)
	for range waiters {
		go func() {
			m, err := f.BPop(ctx, 0, "t")
			results <- result{m: m, err: err}
		}()
	}
	f.waits(f.Client, "t", waiters)
	stolen := make(chan string, waiters)
	for range pollers {
		go func() {
			for ctx.Err() == nil {
				if m, err := f.Pop(ctx, "t"); err == nil {
					stolen <- m.ID
				}
			}
		}()
	}
	c := f.open()
	for n := range waiters {
		_, err := c.Push(t.Context(), client.Message{ID: fmt.Sprint(n), Topic: "t", Body: "b"}, 0)
		check(t, err)
	}
	for range waiters {
		select {
		case r := <-results:
			if r.err != nil {
				t.Fatal(r.err)
			}
		case id := <-stolen:
			t.Fatalf("a Pop that came later got job %s", id)
		case <-time.After(hangBound):
			t.Fatal("not all who wait were served")
		}
	}
}

// A logger that keeps us waiting holds nobody else up.
func TestStuckLogger(t *testing.T) {
	f := start(t)
	f.do("ACL", "SETUSER", "u", "on", ">p", "~delayer:*", "+@all", "-@dangerous")
	stuck, resume := make(chan struct{}), make(chan struct{})
	logger := slog.New(slog.NewTextHandler(writerFunc(func(b []byte) (int, error) {
		close(stuck)
		<-resume
		return len(b), nil
	}), nil))
	c := client.OpenPool(client.PoolOptions{Addr: f.redis.Addr, Username: "u", Password: "p"}, client.WithLogger(logger))
	defer c.Close()
	defer close(resume)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	background(func() (client.Message, error) { return c.BPop(ctx, 0, "t") })
	<-stuck
	r := waitFor(t, background(func() (client.Message, error) { return c.Pop(t.Context(), "u") }))
	if !errors.Is(r.err, client.ErrEmpty) {
		t.Errorf("Pop: %v", r.err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
