package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/server"
)

// fixture is a Client on the test's Redis.
type fixture struct {
	*client.Client
	*redistest.Server
}

// The Redis of a test; see redistest.Open.
var (
	alone     redistest.Need = redistest.Alone
	undivided redistest.Need = redistest.Undivided
	settings                 = redistest.Settings
)

func start(t testing.TB, needs ...redistest.Need) *fixture {
	t.Helper()
	f := &fixture{Server: redistest.Open(t, needs...)}
	f.Client = f.open(client.PoolOptions{})
	return f
}

// open opens another Client.
func (f *fixture) open(o client.PoolOptions, opts ...client.Option) *client.Client {
	c := redistest.Must(client.OpenPool(f.reach(o), append(opts, client.WithPrefix(f.Prefix))...))
	f.TB.Cleanup(func() { c.Close() })
	return c
}

// on opens a Client on the test's Redis.
func (f *fixture) on(r *client.Redis) *client.Client {
	return redistest.Must(client.New(r, client.WithPrefix(f.Prefix)))
}

// reach adds Redis's address to the pool options.
func (f *fixture) reach(o client.PoolOptions) client.PoolOptions {
	return clienttest.Reach(f.Server, o)
}

// url returns the URL of Redis.
func (f *fixture) url() string {
	if f.Clustered {
		return fmt.Sprintf("redis-cluster://%s?partitions=%d", f.Addr, f.Partitions)
	}
	return "redis://" + f.Addr
}

// serve runs a server until the test ends.
func (f *fixture) serve() {
	f.TB.Helper()
	r := redistest.Must(client.Connect(f.reach(client.PoolOptions{})))
	f.TB.Cleanup(func() { r.Close() })
	redistest.Background(f.TB, redistest.Must(server.New(r, server.Options{Logger: slog.New(slog.DiscardHandler), Prefix: f.Prefix})).Run)
}

// push pushes a job that is ready at once.
func (f *fixture) push(id, topic string, opts ...client.PushOption) {
	f.TB.Helper()
	_, err := f.Push(f.TB.Context(), client.Message{ID: id, Topic: topic, Body: "body"}, 0, opts...)
	check(f.TB, err)
}

// pushMany pushes ready jobs with the IDs prefix0, prefix1, ….
func (f *fixture) pushMany(n int, prefix, topic string) {
	f.TB.Helper()
	var batch []client.Item
	for i := range n {
		batch = append(batch, client.Item{Message: client.Message{ID: fmt.Sprint(prefix, i), Topic: topic, Body: "body"}})
	}
	_, err := f.PushBatch(f.TB.Context(), batch)
	check(f.TB, err)
}

// dueNow makes a waiting job ready.
func (f *fixture) dueNow(id string) {
	f.TB.Helper()
	check(f.TB, f.Reschedule(f.TB.Context(), id, 0))
}

// get returns the job, or the zero Job.
func (f *fixture) get(id string) client.JobInfo {
	f.TB.Helper()
	job, err := f.Get(f.TB.Context(), id)
	if err != nil && !errors.Is(err, client.ErrNotFound) {
		f.TB.Fatal(err)
	}
	return job
}

// expectJob waits until the job is in that state and checks its attempts.
func (f *fixture) expectJob(id string, state client.State, attempts int) client.JobInfo {
	f.TB.Helper()
	var job client.JobInfo
	until(f.TB, fmt.Sprintf("job %s is %s", id, state), func() bool { job = f.get(id); return job.State == state })
	if job.Attempts != attempts {
		f.TB.Errorf("job %s has %d attempts, want %d", id, job.Attempts, attempts)
	}
	return job
}

// expectDead waits until the job is a dead letter and checks its reason and error.
func (f *fixture) expectDead(id string, attempts int, reason, lastError string) {
	f.TB.Helper()
	job := f.expectJob(id, client.StateDead, attempts)
	if !strings.Contains(job.Reason, reason) || !strings.Contains(job.Error, lastError) {
		f.TB.Errorf("dead letter %+v, want one with reason %q and error %q", job, reason, lastError)
	}
}

// expectNothing checks that there are no jobs.
func (f *fixture) expectNothing() { f.TB.Helper(); f.Expect(redistest.State{}) }

// clock returns Redis's time.
func (f *fixture) clock() time.Time {
	f.TB.Helper()
	return time.UnixMicro(int64(math.Round(f.Clock() * 1e6)))
}

// running is a call of Run in progress.
type running struct {
	t      testing.TB
	cancel context.CancelFunc
	ended  chan error
}

// run runs a worker until the test ends or calls stop.
func (f *fixture) run(mux *worker.Mux, o worker.Options) *running {
	f.TB.Helper()
	return f.runOf(f.Client, mux, o)
}

func (f *fixture) runOf(c *client.Client, mux *worker.Mux, o worker.Options) *running {
	f.TB.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{f.TB, cancel, make(chan error, 1)}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	go func() { r.ended <- worker.New(c, mux, o).Run(ctx) }()
	f.TB.Cleanup(r.stop)
	return r
}

// stop stops the worker and waits for its end.
func (r *running) stop() {
	r.t.Helper()
	r.cancel()
	r.await()
}

// await waits for Run to return.
func (r *running) await() {
	r.t.Helper()
	select {
	case err := <-r.ended:
		if err != nil {
			r.t.Errorf("Run: %v", err)
		}
		r.ended <- nil
	case <-time.After(hangBound):
		r.t.Fatalf("Run did not return within %v:\n%s", hangBound, workers())
	}
}

// events records events in order.
type events struct {
	mu   sync.Mutex
	list []string
}

func (e *events) add(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, fmt.Sprintf(format, args...))
}

func (e *events) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.list)
}

func (e *events) count(event string) (n int) {
	for _, one := range e.all() {
		if one == event {
			n++
		}
	}
	return n
}

// hooks returns hooks that record events.
func (e *events) hooks() worker.Hooks {
	return worker.Hooks{
		Started:   func(job *worker.Job) { e.add("started %s", job.ID) },
		Done:      func(job *worker.Job, _ time.Duration) { e.add("done %s", job.ID) },
		Failed:    func(job *worker.Job, _ time.Duration, err error) { e.add("failed %s", job.ID) },
		Retried:   func(job *worker.Job, delay time.Duration, _ error) { e.add("retried %s after %v", job.ID, delay) },
		Buried:    func(job *worker.Job, _ error) { e.add("buried %s", job.ID) },
		Released:  func(job *worker.Job, delay time.Duration) { e.add("released %s for %v", job.ID, delay) },
		LeaseLost: func(job *worker.Job) { e.add("lease lost %s", job.ID) },
		Stuck:     func(job *worker.Job) { e.add("stuck %s", job.ID) },
	}
}

// await waits for that many events and checks them.
func (e *events) await(t testing.TB, want ...string) {
	t.Helper()
	until(t, fmt.Sprintf("events %q", want), func() bool { return len(e.all()) >= len(want) })
	e.expect(t, want...)
}

func (e *events) expect(t testing.TB, want ...string) {
	t.Helper()
	if got := e.all(); !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}

// succeed is a handler that does nothing.
func succeed(context.Context, *worker.Job) error { return nil }

// muxOf returns a mux with one handler for all topics.
func muxOf(f func(ctx context.Context, job *worker.Job) error, topics ...string) *worker.Mux {
	mux := worker.NewMux()
	for _, topic := range topics {
		mux.HandleFunc(topic, f)
	}
	return mux
}

// one returns a mux with one handler for topic t.
func one(f func(ctx context.Context, job *worker.Job) error, options ...worker.TopicOptions) *worker.Mux {
	mux := worker.NewMux()
	mux.HandleFunc("t", f, options...)
	return mux
}

// gate is a handler that waits until the test sends its result.
type gate struct {
	inside chan *worker.Job
	ctx    chan context.Context
	leave  chan error
}

func newGate() *gate {
	return &gate{make(chan *worker.Job, 20_000), make(chan context.Context, 20_000), make(chan error)}
}

func (g *gate) handle(ctx context.Context, job *worker.Job) error {
	g.ctx <- ctx
	g.inside <- job
	return <-g.leave
}

// atGate is a worker whose handler waits at a gate.
type atGate struct {
	*running
	*gate
	*events
}

// hold runs a worker whose handler waits at a gate with job a of topic t.
func (f *fixture) hold(c *client.Client, o worker.Options) atGate {
	f.TB.Helper()
	h := atGate{gate: newGate(), events: new(events)}
	o.Hooks = h.hooks()
	f.push("a", "t")
	h.running = f.runOf(c, one(h.handle), o)
	next(f.TB, h.inside)
	return h
}

// check fails the test on an error.
var check = redistest.Check

// hangBound is the longest time for anything that must happen, even on a slow machine.
const hangBound = redistest.HangBound

// until waits until a condition holds.
var until = redistest.Until

// next receives from the channel.
func next[T any](t testing.TB, c <-chan T) T { t.Helper(); return redistest.Receive(t, c) }
