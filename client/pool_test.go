package client_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/server"
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
		p := client.PoolOf(c.options)
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
	pool := f.reached(client.PoolOptions{MaxActive: 1})
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
	pool := client.PoolOf(client.PoolOptions{Addr: f.Addr})
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
	expectWaiterWorks(t, f.on(client.UsePool(&redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", f.Addr) }}, f.Partitions)))
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
	used, fresh := redistest.Must(client.OpenPool(o, client.WithPrefix(f.Prefix))), redistest.Must(client.OpenPool(o, client.WithPrefix(f.Prefix)))
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

// A wrong option is an error at once, which names it.
func TestOpenOfAWrongOption(t *testing.T) {
	pool := &redis.Pool{}
	for name, c := range map[string]struct {
		open func() (*client.Client, error)
		part string
	}{
		"nil option": {func() (*client.Client, error) { return client.Open("redis://127.0.0.1:1", nil) }, "option"},
		"braces": {func() (*client.Client, error) {
			return client.Open("redis://127.0.0.1:1?partitions=2", client.WithPrefix("{a}:"))
		}, "prefix: "},
		"cluster undivided":    {func() (*client.Client, error) { return client.Open("redis-cluster://127.0.0.1:1") }, "partitions: 1, but "},
		"many partitions":      {func() (*client.Client, error) { return client.OpenPool(client.PoolOptions{Partitions: 1025}) }, "partitions: 1025 is not from 1 to 1024"},
		"negative partitions":  {func() (*client.Client, error) { return client.OpenPool(client.PoolOptions{Partitions: -1}) }, "partitions: -1 "},
		"no port":              {func() (*client.Client, error) { return client.OpenPool(client.PoolOptions{Addr: "localhost"}) }, "address: "},
		"URL for an address":   {func() (*client.Client, error) { return client.OpenPool(client.PoolOptions{Addr: "redis://u:p@h:1"}) }, "address: "},
		"negative database":    {func() (*client.Client, error) { return client.OpenPool(client.PoolOptions{Database: -1}) }, "database: -1 "},
		"no Redis":             {func() (*client.Client, error) { return client.New(nil) }, "redis: "},
		"zero Redis":           {func() (*client.Client, error) { return client.New(new(client.Redis)) }, "redis: "},
		"no pool":              {func() (*client.Client, error) { return client.New(client.UsePool(nil, 1)) }, "redis: "},
		"partitions of a pool": {func() (*client.Client, error) { return client.New(client.UsePool(pool, 1025)) }, "partitions: 1025 "},
	} {
		got, err := c.open()
		expectErr(t, name, err, client.ErrInvalid)
		if expectText(t, name, err, "delayer: ", "invalid "+c.part); got != nil {
			t.Errorf("%s: there is a Client", name)
		}
	}
}

// The number of partitions is the Redis's, for all that is made on it. Closing it closes its own connections, and never a
// pool of the caller's.
func TestPartitionsOfARedis(t *testing.T) {
	t.Parallel()
	f := start(t, alone, onePool)
	pool := f.Pool()
	connected := redistest.Must(client.Connect(client.PoolOptions{Addr: f.Addr, Partitions: 16}))
	for name, r := range map[string]*client.Redis{"Connect": connected, "UsePool": client.UsePool(pool, 16)} {
		f.Do("FLUSHALL")
		c := redistest.Must(client.New(r))
		defer c.Close()
		check(t, errOf(c.Push(t.Context(), message("a"), time.Millisecond)))
		if n := f.Do("EXISTS", fmt.Sprintf("delayer:{%d}:job_pool", store.PartitionOf("a", 16))); n != int64(1) {
			t.Errorf("%s: the job is not in its partition", name)
		}
		check(t, redistest.Must(server.New(r, server.Options{Logger: slog.New(slog.DiscardHandler)})).Check(t.Context()))
		check(t, r.Close())
	}
	check(t, errOf(pool.Get().Do("PING")))
	if err := errOf(redistest.Must(client.New(connected)).Get(t.Context(), "a")); err == nil {
		t.Error("a Redis works after Close")
	}
}
