package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

func TestPoolDefaults(t *testing.T) {
	type limits struct {
		active, idle int
		rest, age    time.Duration
		waits        bool
	}
	for _, c := range []struct {
		options client.PoolOptions
		want    limits
	}{
		{client.PoolOptions{}, limits{32, 32, 5 * time.Minute, 0, true}},
		{client.PoolOptions{MaxActive: 7, MaxIdle: 3, IdleTimeout: time.Second, MaxConnLifetime: time.Minute}, limits{7, 3, time.Second, time.Minute, true}},
		{client.PoolOptions{MaxActive: 7}, limits{7, 7, 5 * time.Minute, 0, true}},
		{client.PoolOptions{MaxActive: -1, IdleTimeout: -1}, limits{0, 32, 0, 0, true}},
		{client.PoolOptions{MaxIdle: -1, MaxConnLifetime: -1}, limits{32, 0, 5 * time.Minute, 0, true}},
	} {
		p := redistest.Must(client.NewPool(c.options))
		if got := (limits{p.MaxActive, p.MaxIdle, p.IdleTimeout, p.MaxConnLifetime, p.Wait}); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.options, got, c.want)
		}
	}
}

// expectWorks pushes and pops, and waits for a job.
func expectWorks(t *testing.T, o client.PoolOptions) {
	t.Helper()
	c := redistest.Must(client.OpenPool(o))
	defer c.Close()
	expectWaiterWorks(t, c)
	check(t, errOf(c.Push(t.Context(), message("a"), 0)))
	expectJob(t, bpop(t.Context(), c, hangBound, "t"), "a")
}

// expectWaiterWorks waits for a job, and pushes it.
func expectWaiterWorks(t *testing.T, c *client.Client) {
	t.Helper()
	popped := bpop(t.Context(), c, 0, "t")
	until(t, "BPop waits", func() bool { return client.Registered(c, "t") })
	check(t, errOf(c.Push(t.Context(), message("b"), 0)))
	expectJob(t, popped, "b")
}

func TestDatabase(t *testing.T) {
	f := start(t, redistest.Standalone("a cluster has one database"))
	f.Do("SELECT", 5)
	c, err := client.Open("redis://" + f.Addr + "/5")
	check(t, err)
	defer c.Close()
	check(t, errOf(c.Push(t.Context(), message("a"), 0)))
	f.Expect(state{Ready: queues{"t": {"a"}}, Buckets: buckets{"a": "t " + message("a").Body}})
}

func TestUnixSocket(t *testing.T) {
	r := redistest.Start(t, "--unixsocket", "redis.sock")
	expectWorks(t, options(t, "unix://"+r.Dir+"/redis.sock"))
	t.Chdir(r.Dir)
	expectWorks(t, client.PoolOptions{Addr: "./redis.sock"})
}

func TestTLS(t *testing.T) {
	_, addr, roots := redistest.StartTLS(t)
	o := options(t, "rediss://"+addr)
	o.ConnectTimeout = hangBound // also bounds the handshake
	unknown := o
	unknown.TLS = o.TLS.Clone()
	o.TLS.RootCAs = roots
	expectWorks(t, o)

	_, port, _ := net.SplitHostPort(addr)
	o.Addr = "localhost:" + port
	expectWorks(t, o)

	o.TLS.ServerName = "elsewhere"
	expectText(t, "another host's certificate", expectFails(t, o), "certificate", "elsewhere")
	expectText(t, "unknown authority", expectFails(t, unknown), "certificate")
}

// expectFails returns the error of a Pop.
func expectFails(t *testing.T, o client.PoolOptions) error {
	t.Helper()
	c := redistest.Must(client.OpenPool(o))
	defer c.Close()
	return errOf(c.Pop(t.Context(), "t"))
}

func TestAuthentication(t *testing.T) {
	r := redistest.Start(t, "--requirepass", "s3cret", "--user", "bob", "on", ">b0bs", "~*", "&*", "+@all")
	address := "@" + r.Addr
	for _, user := range []string{":s3cret", "s3cret", "default:s3cret", "bob:b0bs"} {
		expectWorks(t, options(t, "redis://"+user+address))
	}
	for user, reason := range map[string]string{
		"":         "NOAUTH",
		"bob:n0ne": "WRONGPASS",
		":n0ne":    "WRONGPASS",
		"eve:n0ne": "WRONGPASS",
	} {
		c := redistest.Must(client.OpenPool(options(t, "redis://"+user+address)))
		for name, call := range calls(c, t.Context()) {
			r := arrival(t, failing(call))
			var refusal redis.Error
			expectText(t, user+" "+name, r.err, reason, "delayer: ")
			if !errors.As(r.err, &refusal) || strings.Contains(r.err.Error(), "n0ne") {
				t.Errorf("%s %s: error %v", user, name, r.err)
			}
			if r.took > client.RetryWindow {
				t.Errorf("%s %s: a refusal after %v: it won't pass by waiting", user, name, r.took)
			}
		}
		c.Close()
	}
}

// If no server listens, the error comes at once and names the address.
func TestRefusedConnection(t *testing.T) {
	f := start(t, alone)
	f.Kill()
	_, err := f.Push(t.Context(), message("a"), 0)
	expectText(t, "Push", err, "delayer: push \"a\": ", f.Addr)
}

// The end of a call's context ends its wait for a connection. A call that got no connection is not made later.
func TestContextEndsTheWaitForAConnection(t *testing.T) {
	t.Parallel()
	f := start(t, undivided)
	f.push("b", "t")
	pool := f.newPool(client.PoolOptions{MaxActive: 1})
	c := f.on(pool)
	f.expectUnchanged(func() {
		conn := f.connect(pool)
		for range 2 { // the first call of its kind, and a second one behind it
			for name := range calls(c, nil) {
				call := failing(func() error { return calls(c, deadline(t, 10*time.Millisecond))[name]() })
				if r := arrival(t, call); !errors.Is(r.err, context.DeadlineExceeded) {
					t.Errorf("%s: error %v, want its deadline's", name, r.err)
				}
			}
		}
		conn.Close()
		check(t, errOf(c.Get(t.Context(), "b")))
		c.Close()
	})
}

// An idle connection is checked before use, so no call fails after a restart of Redis. A user without permission to
// PING keeps its connection.
func TestRestedConnections(t *testing.T) {
	f := start(t, alone)
	pool := redistest.Must(client.NewPool(client.PoolOptions{Addr: f.Addr}))
	defer pool.Close()
	conn, err := pool.DialContext(t.Context())
	check(t, err)
	defer conn.Close()
	rested := time.Now().Add(-time.Minute)
	check(t, pool.TestOnBorrowContext(t.Context(), conn, rested))
	f.Do("ACL", "SETUSER", "default", "-ping")
	check(t, pool.TestOnBorrowContext(t.Context(), conn, rested))
	f.killConnections()
	if err := pool.TestOnBorrowContext(t.Context(), conn, rested); err == nil {
		t.Error("a dead connection passes")
	}
}

// New also works with a pool from redigo's own example.
func TestNewOnPlainPool(t *testing.T) {
	f := start(t, onePool)
	expectWaiterWorks(t, f.on(&redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", f.Addr) }}))
}

func TestPrefix(t *testing.T) {
	f := start(t)
	prefix := f.Prefix + "shop:"
	shop := &fixture{f.open(client.WithPrefix(prefix)), f.with(t).Server}
	shop.Prefix = prefix
	shop.put(message("a"), 0)
	shop.put(message("b"), time.Hour)
	expectErr(t, "Pop under another prefix", errOf(f.Pop(t.Context(), "t")), client.ErrEmpty)
	shop.Expect(state{
		Pool: []string{"b"}, Ready: queues{"t": {"a"}},
		Buckets: buckets{"a": "t " + message("a").Body, "b": "t " + message("b").Body},
	})
	expectJob(t, bpop(t.Context(), shop.Client, 0, "t"), "a")
}

// As documented, a call without options fails if Redis sends nothing for 3 s.
func TestDefaultTimeouts(t *testing.T) {
	t.Parallel()
	f := start(t, alone)
	o := f.reach(client.PoolOptions{})
	o.ReadTimeout = 0
	used, fresh := redistest.Must(client.OpenPool(o, f.options()...)), redistest.Must(client.OpenPool(o, f.options()...))
	defer used.Close()
	defer fresh.Close()
	check(t, errOf(used.Push(t.Context(), message("a"), 0)))
	f.Hang()
	defer f.Continue()
	for name, call := range map[string]<-chan result{
		"on a connection that there was": failing(func() error { return errOf(used.Push(context.Background(), message("a"), 0)) }),
		"on a new connection":            failing(func() error { return fresh.Reschedule(context.Background(), "a", 0) }),
	} {
		r := arrival(t, call)
		least := 3 * time.Second
		if f.Clustered {
			least = time.Second // then the time to ask for the slot owners
		}
		if expectTimeout(t, name, r.err); r.took < least {
			t.Errorf("%s: after %v already", name, r.took)
		}
	}
}

// Open reports a wrong option at once.
func TestOpenOfAWrongOption(t *testing.T) {
	for name, option := range map[string]client.Option{"nil": nil, "many": client.WithPartitions(5000), "negative": client.WithPartitions(-1)} {
		c, err := client.Open("redis://127.0.0.1:1", option)
		if expectErr(t, name, err, client.ErrInvalid); c != nil {
			t.Errorf("%s: there is a Client", name)
		}
	}
}

// A pool does not divide jobs, and is not opened with several partitions. The error names OpenPool.
func TestPoolOfPartitions(t *testing.T) {
	t.Parallel()
	f := start(t, alone, onePool)
	for _, o := range []client.PoolOptions{
		{Partitions: 16}, {Partitions: 2},
	} {
		o.Addr = f.Addr
		_, err := client.Connect(o)
		expectText(t, fmt.Sprintf("%+v", o), err, "delayer: connect: invalid partitions: ", "want OpenPool")
		if !errors.Is(err, client.ErrInvalid) {
			t.Errorf("the error is not ErrInvalid")
		}
		opened := redistest.Must(client.OpenPool(o))
		defer opened.Close()
		f.Do("FLUSHALL")
		check(t, errOf(opened.Push(t.Context(), message("a"), 0)))
	}
	one := redistest.Must(client.NewPool(client.PoolOptions{Addr: f.Addr, Partitions: 1}))
	defer one.Close()
	f.Do("FLUSHALL")
	check(t, errOf(client.New(one).Push(t.Context(), message("a"), 0)))
}
