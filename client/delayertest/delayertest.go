// Package delayertest is for tests of programs that push jobs or handle them: a Delayer in
// memory, with nothing to install, whose time is put forward by the test.
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
// The Delayer's time stands still, however long the test takes, and goes on by Forward only. So
// nothing falls due by itself, and delays are exact to the millisecond. It begins with the
// time at which New was called; Now tells it. Where the code under test computes due times itself,
// for client.PushAt, give it Now in place of time.Now.
//
// With Forward go due times, leases, retries, lifetimes, dead letters, and the moments of schedules, each at its time. What goes by
// the clock of the host stays as it is: the timeouts of calls such as client.BPop,
// worker.Options.Timeout, and client.Delivery.Deadline.
//
// # What it is not
//
// The Redis is an imitation (miniredis). It is right for what a program does with its jobs, and
// says nothing about speed, or about a Redis that is full, away or in a cluster. It has one partition, however many
// there are in production: a Client of the test's own is opened at URL as it is.
package delayertest

import (
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

// Delayer is a server and its Redis, in memory. Make one with New. It is safe for concurrent
// use, also by subtests, which pass their own t.
type Delayer struct {
	url    string
	pool   *redis.Pool
	client *client.Client
	server *server.Server
	keys   store.Keys

	forwarding sync.Mutex // one Forward at a time
	clock      *clock
}

// New starts an empty Delayer, which ends with the test. It takes no longer than a call or two, so
// each test can have its own.
func New(t testing.TB) *Delayer {
	t.Helper()
	m := miniredis.RunT(t)
	pool := client.NewPool(client.PoolOptions{Addr: m.Addr()})
	d := &Delayer{
		url:    "redis://" + m.Addr(),
		pool:   pool,
		client: client.New(pool),
		server: server.New(pool, server.Options{Logger: slog.New(slog.NewTextHandler(testLog{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))}),
		keys:   store.New(nil, store.DefaultPrefix).Keys(),
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

// testLog is what a server's log is written to: of what doesn't work.
type testLog struct{ t testing.TB }

func (l testLog) Write(line []byte) (int, error) {
	l.t.Logf("delayertest: %s", line)
	return len(line), nil
}

// Client is the Delayer's own Client, which is closed when the test ends.
func (d *Delayer) Client() *client.Client { return d.client }

// URL is where the Delayer is, for code that makes its own Client: see client.Open.
func (d *Delayer) URL() string { return d.url }

// Now is the Delayer's time, a whole millisecond.
func (d *Delayer) Now() time.Time { return d.clock.get() }
