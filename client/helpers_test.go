package client_test

import (
	"errors"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/server"
)

// fixture is a Client on the test's Redis.
type fixture struct {
	*client.Client
	*redistest.Server
}

// The test's Redis; see redistest.Open.
var (
	alone     redistest.Need = redistest.Alone
	undivided redistest.Need = redistest.Undivided
	settings                 = redistest.Settings

	oldLayout = redistest.Standalone("the original's keys")
	replaced  = redistest.Standalone("another server takes its place at an address")
	onePool   = redistest.Standalone("a pool of one server")

	// promptReplicas makes a master send its replicas its data at once; the default is after 5 s.
	promptReplicas = settings("--repl-diskless-sync-delay", "0")
)

// counts has what the hooks of a Client are told.
type counts struct{ stale, lost atomic.Int64 }

func (n *counts) option() client.Option {
	return client.WithHooks(client.Hooks{
		Stale: func(ids []string) { n.stale.Add(int64(len(ids))) },
		Lost:  func(jobs int) { n.lost.Add(int64(jobs)) },
	})
}

// start opens a Redis with a Client on it.
func start(t testing.TB, needs ...redistest.Need) *fixture {
	t.Helper()
	f := &fixture{Server: redistest.Open(t, needs...)}
	f.Client = f.open()
	return f
}

// with returns the fixture for a subtest.
func (f *fixture) with(t testing.TB) *fixture {
	server := *f.Server
	server.Fixture = f.With(t)
	return &fixture{f.Client, &server}
}

// open opens another Client.
func (f *fixture) open(opts ...client.Option) *client.Client {
	return f.openPool(client.PoolOptions{}, opts...)
}

// openPool opens another Client with these pool options.
func (f *fixture) openPool(o client.PoolOptions, opts ...client.Option) *client.Client {
	c := redistest.Must(client.OpenPool(f.reach(o), append([]client.Option{client.WithPrefix(f.Prefix)}, opts...)...))
	f.TB.Cleanup(func() { c.Close() })
	return c
}

// reach adds the address of the Redis to pool options.
func (f *fixture) reach(o client.PoolOptions) client.PoolOptions {
	return clienttest.Reach(f.Server, o)
}

// behind sends all later connections to the Redis through a proxy at this address. The fixture's own Client stays
// connected.
func (f *fixture) behind(proxy string) {
	f.TB.Helper()
	if f.Clustered {
		check(f.TB, f.Ping(f.TB.Context()))
		_, port, _ := net.SplitHostPort(proxy)
		f.Do("CONFIG", "SET", "cluster-announce-port", port)
	}
}

// connect takes a connection for the test's jobs.
func (f *fixture) connect(r *client.Redis) redis.Conn {
	f.TB.Helper()
	conn, err := redisconn.NewSource(client.Conns(r)).Of(f.Prefixes()[0]).Get(f.TB.Context())
	check(f.TB, err)
	return conn
}

// reached returns the test's Redis, reached with these options.
func (f *fixture) reached(o client.PoolOptions) *client.Redis {
	r := redistest.Must(client.Connect(f.reach(o)))
	f.TB.Cleanup(func() { r.Close() })
	return r
}

// as opens a Client whose user has only these permissions.
func (f *fixture) as(user, rights string, opts ...client.Option) *client.Client {
	f.TB.Helper()
	if f.Clustered {
		rights += redistest.Rights(f.TB, "cluster")
	}
	f.Do("ACL", redis.Args{"SETUSER", user, "reset", "on", ">p"}.AddFlat(strings.Fields(rights))...)
	return f.openPool(client.PoolOptions{Username: user, Password: "p"}, opts...)
}

// on opens a Client on the test's Redis.
func (f *fixture) on(r *client.Redis) *client.Client {
	c := redistest.Must(client.New(r, client.WithPrefix(f.Prefix)))
	f.TB.Cleanup(func() { c.Close() })
	return c
}

// serve runs a server until the test ends or stop is called.
func (f *fixture) serve() (stop func()) {
	f.TB.Helper()
	return redistest.Background(f.TB, f.server(f.reached(client.PoolOptions{}), 20*time.Millisecond).Run)
}

// server returns a server for the test's jobs.
func (f *fixture) server(r *client.Redis, interval time.Duration) *server.Server {
	return redistest.Must(server.New(r, server.Options{Logger: slog.New(slog.DiscardHandler), Interval: interval, Prefix: f.Prefix}))
}

// connections returns how many connections Redis has, including the test's own. (Client has a method of that name,
// too.)
func (f *fixture) connections() int { f.TB.Helper(); return f.Fixture.Connections() }

type (
	state   = redistest.State
	queues  = map[string][]string
	buckets = map[string]string
)

// check fails the test on an error.
var check = redistest.Check

// hangBound is the longest time for anything that must happen, even on a slow machine.
const hangBound = redistest.HangBound

// until waits until a condition holds.
var until = redistest.Until

// arrival receives a value from the channel.
func arrival[T any](t testing.TB, from <-chan T) T { t.Helper(); return redistest.Receive(t, from) }

// later makes the call in the background.
func later[T any](call func() T) <-chan T {
	results := make(chan T, 1)
	go func() { results <- call() }()
	return results
}

// result is the result of a background call that takes a job. d is set if the call reserves.
type result struct {
	m    client.Message
	d    *client.Delivery
	err  error
	took time.Duration
}

// timed makes the call and measures its time.
func timed(call func() (client.Message, error)) result {
	began := time.Now()
	m, err := call()
	return result{m: m, err: err, took: time.Since(began)}
}

// background makes the call in the background, and sends its result to the channel.
func background(call func() (client.Message, error)) <-chan result {
	return later(func() result { return timed(call) })
}

// failing is background for a call that takes no job.
func failing(call func() error) <-chan result {
	return background(func() (client.Message, error) { return client.Message{}, call() })
}

// many makes n calls in the background, which send their results to one channel.
func many(n int, call func(n int) (client.Message, error)) <-chan result {
	results := make(chan result, n)
	for i := range n {
		go func() { results <- timed(func() (client.Message, error) { return call(i) }) }()
	}
	return results
}

// expectOnce checks that n different jobs are delivered, and returns their IDs in order.
func expectOnce(t testing.TB, results <-chan result, n int) []string {
	t.Helper()
	seen := map[string]bool{}
	for range n {
		r := arrival(t, results)
		if r.err != nil || seen[r.m.ID] {
			t.Fatalf("got %v, %v: twice?", r.m, r.err)
		}
		seen[r.m.ID] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// dial opens a separate connection, which is closed when the test ends.
func (f *fixture) dial() redis.Conn {
	f.TB.Helper()
	conn := f.Dial()
	f.TB.Cleanup(func() { conn.Close() })
	return conn
}

// expectJob checks that the result is the job with this ID.
func expectJob(t testing.TB, results <-chan result, id string) *client.Delivery {
	t.Helper()
	r := arrival(t, results)
	if r.err != nil || r.m.ID != id {
		t.Fatalf("got job %q, error %v, want job %q", r.m.ID, r.err, id)
	}
	return r.d
}

// expectError checks that the background call fails with this error.
func expectError(t testing.TB, results <-chan result, want error) {
	t.Helper()
	if r := arrival(t, results); !errors.Is(r.err, want) {
		t.Errorf("got job %q, error %v, want %v", r.m.ID, r.err, want)
	}
}

// expectErr checks the kind of an error.
func expectErr(t testing.TB, call string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", call, err, want)
	}
}

// errOf returns the error of a call that also returns another value.
func errOf(_ any, err error) error { return err }

// expectText checks that there is an error and that it contains all the parts.
func expectText(t testing.TB, call string, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: error %v, want one with %q", call, err, part)
		}
	}
}
