package worker_test

import (
	"context"
	"errors"
	"math"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// mistake is what a worker is made of, and the parts of its error.
type mistake struct {
	name    string
	client  *client.Client
	mux     *worker.Mux
	options worker.Options
	want    []string
}

// mistakes are those in a worker's Client and options.
func mistakes(c *client.Client) []mistake {
	fine := func() *worker.Mux { return one(succeed) }
	return []mistake{
		{"no client", nil, fine(), worker.Options{}, []string{"client: it is nil"}},
		{"concurrency", c, fine(), worker.Options{Concurrency: -1}, []string{"concurrency: -1 is not from 1 to 10000; 0 means 10"}},
		{"high concurrency", c, fine(), worker.Options{Concurrency: 10_001}, []string{"concurrency: 10001 is not from 1 to 10000"}},
		{"lease", c, fine(), worker.Options{Lease: -1}, []string{"lease: -1ns is not from 0 to 24h"}},
		{"long lease", c, fine(), worker.Options{Lease: store.MaxLease + 1}, []string{"lease: 24h0m0.000000001s is not from 0 to 24h"}},
		{"tiny lease", c, fine(), worker.Options{Lease: 5}, []string{"lease: 5ns is less than a millisecond; in Go a number without a unit is in nanoseconds, and 30 seconds are 30*time.Second"}},
		{"tiny timeout", c, fine(), worker.Options{Timeout: time.Millisecond - 1}, []string{"timeout: 999.999µs is less than a millisecond"}},
		{"tiny grace", c, fine(), worker.Options{Grace: 10}, []string{"grace: 10ns is less than a millisecond"}},
		{"zero client", new(client.Client), fine(), worker.Options{}, []string{"client: it was not made with"}},
		{"many attempts", c, fine(), worker.Options{MaxAttempts: math.MaxInt32 + 1}, []string{"max attempts: 2147483648 is above 2147483647; 0 means 25, a negative number no limit"}},
	}
}

// mistakesOfMuxes are those in a Mux and in what is added to it.
func mistakesOfMuxes(c *client.Client) []mistake {
	mux := func(fill func(*worker.Mux)) *worker.Mux {
		m := one(succeed)
		fill(m)
		return m
	}
	return []mistake{
		{"no mux", c, nil, worker.Options{}, []string{"mux: it is nil"}},
		{"empty mux", c, worker.NewMux(), worker.Options{}, []string{"mux: it has no handlers"}},
		{"two handlers", c, mux(func(m *worker.Mux) { m.HandleFunc("t", succeed) }), worker.Options{}, []string{`handler: topic "t" has two`}},
		{"empty topic", c, mux(func(m *worker.Mux) { m.HandleFunc("", succeed) }), worker.Options{}, []string{"topic: it is empty"}},
		{"nil Handler", c, mux(func(m *worker.Mux) { m.Handle("u", nil) }), worker.Options{}, []string{`handler: that of topic "u" is nil`}},
		{"nil func", c, mux(func(m *worker.Mux) { m.HandleFunc("u", nil) }), worker.Options{}, []string{`handler: that of topic "u" is nil`}},
		{"nil typed func", c, mux(func(m *worker.Mux) { worker.Handle[int](m, "u", nil) }), worker.Options{}, []string{`handler: that of topic "u" is nil`}},
		{"nil func of groups", c, mux(func(m *worker.Mux) { worker.HandleGroup[int](m, "u", nil) }), worker.Options{}, []string{`handler: that of topic "u" is nil`}},
		{"nil decode", c, mux(func(m *worker.Mux) {
			worker.HandleWith(m, "u", nil, func(context.Context, int) error { return nil })
		}), worker.Options{}, []string{`handler: that of topic "u" is nil`}},
		{"nil middleware", c, mux(func(m *worker.Mux) { m.Use(nil) }), worker.Options{}, []string{"middleware: it is nil"}},
		{"middleware that makes nil", c, mux(func(m *worker.Mux) { m.Use(func(worker.Handler) worker.Handler { return nil }) }), worker.Options{}, []string{`middleware: it makes a nil handler of that of topic "t"`}},
		{"several", c, mux(func(m *worker.Mux) { m.HandleFunc("", nil) }), worker.Options{Lease: -1}, []string{"topic: it is empty", "lease: -1ns"}},
		{"two TopicOptions", c, one(succeed, worker.TopicOptions{}, worker.TopicOptions{}), worker.Options{}, []string{`options: topic "t" has 2 TopicOptions, want one`}},
	}
}

// mistakesOfTopics are those in a topic's options.
func mistakesOfTopics(c *client.Client) (list []mistake) {
	for _, m := range []struct {
		name    string
		options worker.TopicOptions
		want    string
	}{
		{"a topic's concurrency above the worker's", worker.TopicOptions{Concurrency: 11}, `concurrency: that of topic "t" is 11, and that of the worker, for all topics together, 10`},
		{"a topic's concurrency", worker.TopicOptions{Concurrency: -1}, `concurrency: that of topic "t" is -1`},
		{"weight", worker.TopicOptions{Weight: -1}, `weight: that of topic "t" is -1`},
		{"rate", worker.TopicOptions{Rate: -1}, `rate: that of topic "t" is -1`},
		{"no rate", worker.TopicOptions{Rate: math.NaN()}, `rate: that of topic "t" is NaN`},
		{"infinite rate", worker.TopicOptions{Rate: math.Inf(1)}, `rate: that of topic "t" is +Inf`},
		{"a topic's lease", worker.TopicOptions{Lease: -1}, `lease: that of topic "t" is -1ns: want 1ms to 24h`},
		{"a topic's long lease", worker.TopicOptions{Lease: store.MaxLease + 1}, `lease: that of topic "t" is 24h0m0.000000001s`},
		{"a topic's lease without unit", worker.TopicOptions{Lease: 30}, `lease: that of topic "t" is 30ns`},
		{"a topic's timeout without unit", worker.TopicOptions{Timeout: 30}, `timeout: that of topic "t" is 30ns: want 1ms or more, 0 for that of the worker, or less than 0 for no limit`},
		{"a topic's many attempts", worker.TopicOptions{MaxAttempts: math.MaxInt32 + 1}, `max attempts: that of topic "t" is 2147483648`},
		{"a topic's nil middleware", worker.TopicOptions{Middleware: []worker.Middleware{nil}}, "middleware: it is nil"},
	} {
		list = append(list, mistake{m.name, c, one(succeed, m.options), worker.Options{}, []string{m.want}})
	}
	return list
}

// Each mistake is an error that names it. With a correct configuration Run calls Redis.
func TestInvalid(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	c := redistest.Must(client.OpenPool(client.PoolOptions{Addr: l.Addr().String()}))
	defer c.Close()
	for _, v := range slices.Concat(mistakes(c), mistakesOfMuxes(c), mistakesOfTopics(c)) {
		err := worker.New(v.client, v.mux, v.options).Run(t.Context())
		for _, part := range v.want {
			if !errors.Is(err, client.ErrInvalid) || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: error %v, want ErrInvalid with %q in it", v.name, err, part)
			}
		}
	}
	if err := worker.Run[int](t.Context(), c, "t", nil); !errors.Is(err, client.ErrInvalid) || !strings.Contains(err.Error(), `that of topic "t" is nil`) {
		t.Errorf("Run of no handler: %v", err)
	}
	l.(*net.TCPListener).SetDeadline(time.Now())
	if conn, err := l.Accept(); err == nil {
		conn.Close()
		t.Error("Redis was called")
	}
}

// Run returns errors that waiting cannot fix.
func TestRunFails(t *testing.T) {
	f := start(t, alone)
	f.Do("CONFIG", "SET", "requirepass", "right")
	mux := one(succeed)
	wrong := f.open(client.PoolOptions{Password: "wrong"})
	if err := worker.New(wrong, mux, worker.Options{}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("with a wrong password: error %v", err)
	}
	closed := f.open(client.PoolOptions{Password: "right"})
	ended := make(chan error)
	go func() { ended <- worker.New(closed, mux, worker.Options{}).Run(t.Context()) }()
	f.Do("AUTH", "right")
	f.AwaitWaiter("t")
	closed.Close()
	if err := next(t, ended); !errors.Is(err, client.ErrClosed) {
		t.Errorf("of a Client that is closed: error %v, want ErrClosed", err)
	}
	if err := worker.New(closed, mux, worker.Options{}).Run(t.Context()); !errors.Is(err, client.ErrClosed) {
		t.Errorf("of a closed Client: error %v, want ErrClosed", err)
	}
}

// If the Client is closed before its worker stops, results do not wait until the leases end.
func TestClosedWhileReporting(t *testing.T) {
	f := start(t)
	var e events
	var log redistest.Log
	g := newGate()
	c := f.open(client.PoolOptions{})
	f.push("a", "t")
	ended := make(chan error, 1)
	go func() {
		ended <- worker.New(c, one(g.handle), worker.Options{Hooks: e.hooks(), Logger: log.Logger()}).Run(t.Context())
	}()
	next(t, g.inside)
	c.Close()
	g.leave <- nil
	if err := next(t, ended); !errors.Is(err, client.ErrClosed) {
		t.Errorf("error %v, want ErrClosed", err)
	}
	e.expect(t, "started a", "lease lost a")
	log.Expect(t, 1, "can't acknowledge the job", "client is closed")
}

// A nil context or a nil worker causes an error and no panic.
func TestNil(t *testing.T) {
	c := redistest.Must(client.OpenPool(client.PoolOptions{}))
	defer c.Close()
	mux := one(succeed)
	for name, w := range map[string]*worker.Worker{"nil worker": nil, "zero worker": new(worker.Worker), "worker of a zero client": worker.New(new(client.Client), mux, worker.Options{})} {
		if err := w.Run(t.Context()); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("%s: Run: %v, want ErrInvalid", name, err)
		}
		if job, err := w.RunOne(t.Context(), "t"); job != nil || !errors.Is(err, client.ErrInvalid) {
			t.Errorf("%s: RunOne: %v, want ErrInvalid", name, err)
		}
	}
	w := worker.New(c, mux, worker.Options{})
	var none context.Context
	if err := w.Run(none); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("Run without a context: %v", err)
	}
	if _, err := w.RunOne(none, "t"); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("RunOne without a context: %v", err)
	}
	if job := worker.JobOf(none); job != nil {
		t.Errorf("the job of no context is %v", job)
	}
}
