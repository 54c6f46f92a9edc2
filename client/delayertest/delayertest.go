// Package delayertest tests programs that push or handle jobs. It runs a Delayer in memory, without any setup, and the
// test controls its clock.
//
//	d := delayertest.New(t)
//	shop := NewShop(d.Client())
//	shop.PlaceOrder(ctx, "1001")           // the code under test pushes
//	d.Due(t, "close_order", 30*time.Minute) // fails the test unless a job falls due then
//	d.Forward(t, 30*time.Minute)            // the job is ready when this returns
//	err := d.Handle(t, worker.New(d.Client(), mux, worker.Options{}), "close_order")
//
// # Time
//
// The Delayer's clock stands still until the test calls Forward, no matter how long the test takes. So no job falls due
// by itself, and delays are exact to the millisecond. The clock starts at the time of New; Now returns its time. If the
// code under test computes due times for client.PushAt, let it use Now instead of time.Now.
//
// Forward triggers each event of this clock at its time: due jobs, retries and schedules, and the ends of leases, of
// lifetimes and of dead letters. The timeouts of calls such as client.BPop, worker.Options.Timeout and
// client.Delivery.Deadline use the host's clock, so Forward does not affect them.
//
// # Limitations
//
// The Redis is an imitation (miniredis). It handles jobs like a real one, but shows nothing about speed, or about a
// Redis that is full, unreachable or clustered. A test that opens its own Client uses URL unchanged, without the
// production's [client.PoolOptions].
package delayertest

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/server"
)

// Delayer is a server and its Redis, in memory. Create one with New. It is safe for concurrent use, including by
// subtests, which pass their own t.
type Delayer struct {
	url    string
	pool   *redis.Pool
	client *client.Client
	server *server.Server
	store  *store.Store

	forwarding sync.Mutex // one Forward at a time
	clock      *clock
}

// New starts an empty Delayer and stops it when the test ends. It takes about as long as a call or two, so each test
// can have its own.
func New(t testing.TB) *Delayer {
	t.Helper()
	m := miniredis.RunT(t)
	pool := &redis.Pool{MaxActive: 32, MaxIdle: 32, Wait: true, DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", m.Addr())
	}}
	r := client.UsePool(pool, 1)
	c, err := client.New(r)
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(r, server.Options{Logger: slog.New(slog.NewTextHandler(testLog{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		t.Fatal(err)
	}
	d := &Delayer{
		url:    "redis://" + m.Addr(),
		pool:   pool,
		client: c,
		server: s,
		store:  store.New(pool, store.DefaultPrefix),
		clock:  newClock(m, time.Now()),
	}
	t.Cleanup(func() {
		if err := d.client.Close(); err != nil {
			t.Errorf("delayertest: %v", err)
		}
		pool.Close()
	})
	return d
}

// testLog writes the server's warnings and errors to the test's log.
type testLog struct{ t testing.TB }

func (l testLog) Write(line []byte) (int, error) {
	l.t.Logf("delayertest: %s", line)
	return len(line), nil
}

// Client returns the Delayer's own Client. It is closed when the test ends.
func (d *Delayer) Client() *client.Client { return d.client }

// URL returns the address of the Delayer, for code that opens its own Client with client.Open.
func (d *Delayer) URL() string { return d.url }

// Now returns the Delayer's time, in whole milliseconds.
func (d *Delayer) Now() time.Time { return d.clock.get() }
