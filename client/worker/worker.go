// Package worker runs handlers on the jobs of topics, as an HTTP server runs handlers on requests: it reserves
// each job, calls the handler, and acknowledges the job or schedules a retry.
//
//	const CloseOrder client.Topic[Order] = "close_order" // producers call CloseOrder.Push
//
//	err := worker.Run(ctx, c, CloseOrder, func(ctx context.Context, o Order) error { // until ctx is done
//		return closeIfUnpaid(ctx, o.ID)
//	})
//
// For several topics, other bodies than JSON, or options, fill a Mux:
//
//	mux := worker.NewMux()
//	worker.Handle(mux, CloseOrder, closeOrder)
//	mux.HandleFunc("mail", sendMail, worker.TopicOptions{Rate: 10}) // a func(context.Context, *worker.Job) error
//	err := worker.New(c, mux, worker.Options{Concurrency: 20}).Run(ctx)
//
// A job is delivered at least once: again after an error or a crash, and if its lease ends before it was
// acknowledged. So calling a handler twice should do no harm; Job.Token helps where that is hard. A job that
// has failed MaxAttempts times becomes a dead letter.
package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
)

// Run handles the topic's jobs, whose bodies are T as JSON, with f until ctx is done. It is Worker.Run for a single handler without
// options; JobOf returns f's job.
func Run[T any](ctx context.Context, c *client.Client, topic client.Topic[T], f func(ctx context.Context, value T) error) error {
	mux := NewMux()
	Handle(mux, topic, f)
	return New(c, mux, Options{}).Run(ctx)
}

// Worker runs the handlers of a mux. Create it with New.
type Worker struct {
	client  *client.Client
	mux     *Mux
	options Options
}

// New returns a Worker. If the mux or the options are wrong, Run returns an error.
func New(c *client.Client, mux *Mux, o Options) *Worker {
	return &Worker{client: c, mux: mux, options: o}
}

// Run handles jobs until ctx is done, then returns nil. It returns an error at once if the mux or the options
// are invalid (client.ErrInvalid; nothing was done), the Client is closed, or Redis refuses something that
// waiting cannot fix, such as a wrong password. While Redis is down it keeps trying.
//
// To stop, it starts no more jobs. Running handlers have Options.Grace to finish; then their contexts end,
// and a second later unfinished jobs are released without counting the attempt.
//
// A handler that still runs then is left behind (Hooks.Stuck). A result that cannot be stored by then is
// dropped: its job is delivered again.
//
// Run may be called again, also concurrently.
func (w *Worker) Run(ctx context.Context) error {
	r, err := w.newRun(ctx)
	if err != nil {
		return fmt.Errorf("delayer: run worker: %w", err)
	}
	return r.run(ctx)
}

func (w *Worker) newRun(ctx context.Context) (*run, error) {
	switch {
	case ctx == nil:
		return nil, invalid("ctx", "it is nil")
	case w == nil:
		return nil, invalid("worker", "it is nil")
	case w.client == nil:
		return nil, invalid("client", "it is nil")
	case w.mux == nil:
		return nil, invalid("mux", "it is nil")
	}
	topics, err := w.mux.wrapped()
	if err := errors.Join(err, w.options.check()); err != nil {
		return nil, err
	}
	options := w.options.withDefaults()
	for _, t := range topics {
		if t.options.Concurrency > options.Concurrency {
			return nil, invalid("concurrency", "that of topic %s is %d, and that of the worker, for all topics together, %d", store.Quote(t.name), t.options.Concurrency, options.Concurrency)
		}
	}
	return newRun(w.client, topics, options), nil
}

type run struct {
	client  *client.Client
	options Options
	served  []*served
	byName  map[string]*served

	stopping context.Context // done when no more jobs are started
	// handlers is the parent of all handlers' contexts.
	handlers  context.Context
	interrupt context.CancelCauseFunc
	// reporting is the context of calls that settle jobs.
	reporting     context.Context
	stopReporting context.CancelFunc
	maxActive     int            // maximum number of jobs running, buffered or being settled
	underWay      sync.WaitGroup // the fetch loop and the tasks

	mu        sync.Mutex
	tasks     map[*task]bool // all current tasks
	running   int            // handlers that occupy a slot
	stuck     int            // handlers that were given up, have freed their slots, and have not returned
	buffered  []*task        // reserved and waiting for a slot
	pace      pace
	attendsAt time.Time     // when attend is called again
	extending int           // calls in flight that extend leases
	changed   chan struct{} // capacity 1: what can be fetched has changed
	sooner    chan struct{} // capacity 1: attend has to be called before
}

type served struct {
	topic
	active int  // running handlers and buffered jobs
	stuck  bool // takes no jobs, because its handlers don't return: see giveUp
	bucket tokens
	draw   float64 // see inOrder

	failure     fetchFailure // of this topic alone
	brokenUntil time.Time    // when to try it again; zero if it works
}

// errStopping is the cause of handlers' contexts when the worker stops.
var errStopping = errors.New("the worker stops")

func newRun(c *client.Client, topics []topic, o Options) *run {
	r := &run{
		client: c, options: o, maxActive: 2*o.Concurrency + 4*maxAhead,
		byName: map[string]*served{}, tasks: map[*task]bool{}, pace: pace{since: time.Now()},
		changed: make(chan struct{}, 1), sooner: make(chan struct{}, 1),
	}
	for _, t := range topics {
		t.options = t.options.within(o, r.maxActive)
		s := &served{topic: t, bucket: newTokens(t.options.Rate)}
		s.failure.logger = o.Logger.With("topic", t.name)
		r.served, r.byName[t.name] = append(r.served, s), s
	}
	return r
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// open prepares the run for tasks until ctx is done. Call end to finish it.
func (r *run) open(ctx context.Context) (end func()) {
	r.stopping = ctx
	r.handlers, r.interrupt = context.WithCancelCause(context.WithoutCancel(ctx))
	r.reporting, r.stopReporting = context.WithCancel(context.Background())
	renewing, stopRenewing := context.WithCancel(context.Background())
	var renewer sync.WaitGroup
	renewer.Go(func() { r.renew(renewing) })
	return func() {
		stopRenewing()
		renewer.Wait()
		r.stopReporting()
		r.interrupt(errStopping)
	}
}

func (r *run) run(ctx context.Context) error {
	defer r.open(ctx)()
	failed := make(chan error, 1)
	r.underWay.Go(func() {
		failed <- r.fetchAll(ctx)
		r.releaseAll()
	})
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done(): // a fetch may hang with Redis
	}
	r.stop()
	return err
}

const (
	// interruptWait is how long handlers have to return after their contexts ended.
	interruptWait = time.Second
	// releaseWait is how long releasing the remaining jobs may take.
	releaseWait = 3 * time.Second
	// firstPause and lastPause bound the pause between calls while Redis is down.
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// fetchAll fetches jobs and starts their tasks until ctx is done.
func (r *run) fetchAll(ctx context.Context) error {
	failure := fetchFailure{logger: r.options.Logger}
	for ctx.Err() == nil {
		err := r.fetchSome(ctx, &failure)
		switch {
		case err == nil || ctx.Err() != nil:
		case errors.Is(err, client.ErrClosed) || errors.Is(err, client.ErrInvalid) || store.Refused(err):
			return err
		default:
			sleep(ctx, failure.failed(err))
		}
	}
	return nil
}

// fetchSome waits until jobs can be fetched and exist, and starts their tasks.
func (r *run) fetchSome(ctx context.Context, failure *fetchFailure) error {
	r.tryBroken(ctx, time.Now())
	o, wait := r.plan()
	if o.Max == 0 {
		r.await(ctx, wait)
		return nil
	}
	o.NoWait = failure.away // else it would wait for a job although Redis is back
	list, err := r.fetch(ctx, o, wait)
	if o.NoWait && errors.Is(err, client.ErrEmpty) {
		failure.recovered()
		return nil
	}
	if len(list) > 0 {
		failure.recovered()
	}
	r.start(list)
	if r.isolate(ctx, o.Topics, err) {
		return nil
	}
	return err
}

func (r *run) releaseAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.buffered) > 0 {
		r.unbuffer().drop()
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// await waits until something has changed, or for wait; 0 means no limit.
func (r *run) await(ctx context.Context, wait time.Duration) {
	var timer <-chan time.Time
	if wait > 0 {
		timer = time.After(wait)
	}
	select {
	case <-ctx.Done():
	case <-r.changed:
	case <-timer:
	}
}

// fetch fetches jobs. It returns without any and without an error as soon as more topics can be served than o
// has: after wait at the latest, if not 0.
func (r *run) fetch(ctx context.Context, o client.FetchOptions, wait time.Duration) ([]*client.Delivery, error) {
	fetching, cancel := context.WithCancel(ctx)
	var awaiting sync.WaitGroup
	defer awaiting.Wait() // otherwise it could consume a change that comes after the fetch
	defer cancel()
	if len(o.Topics) < len(r.served) {
		awaiting.Go(func() {
			r.await(fetching, wait)
			cancel()
		})
	}
	list, err := r.client.Fetch(fetching, o)
	if err != nil && fetching.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil
	}
	return list, err
}

func (r *run) fetchOne(ctx context.Context, s *served) ([]*client.Delivery, error) {
	return r.client.Fetch(ctx, client.FetchOptions{Topics: []client.FetchTopic{s.fetchTopic(1)}, Max: 1, NoWait: true})
}

func (s *served) fetchTopic(most int) client.FetchTopic {
	return client.FetchTopic{Topic: s.name, Max: most, Lease: s.options.Lease, MaxAttempts: s.options.MaxAttempts}
}

// start starts the tasks of fetched jobs, as many as there are free slots, and buffers the others.
func (r *run) start(list []*client.Delivery) {
	if len(list) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range list {
		t := r.add(d)
		if t.served.stuck { // the fetch began before
			t.drop()
		} else if r.running < r.options.Concurrency && r.stopping.Err() == nil {
			r.running++
			t.started()
			go t.do()
		} else {
			r.buffer(t)
		}
	}
}

// add makes a task of a delivery. The caller holds mu.
func (r *run) add(d *client.Delivery) *task {
	t := newTask(r, r.byName[d.Topic], d)
	r.tasks[t] = true
	r.underWay.Add(1)
	t.served.active++
	t.served.bucket.take()
	r.attendAt(t.renewAt)
	return t
}

// handled frees the slot of a task whose handler has returned, and reports whether the handler's result counts: then the caller
// settles the job and finishes the task.
func (r *run) handled(t *task) (counts bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pace.handled++
	counts, t.settling = !t.settling, true
	if t.givenUp {
		t.served.stuck = false
	}
	if t.slotFreed {
		r.stuck--
		r.mayWant()
	} else {
		r.free(t)
	}
	return counts
}

// free starts the next task in the task's slot. The caller holds mu.
func (r *run) free(t *task) {
	t.served.active--
	if len(r.buffered) > 0 && r.stopping.Err() == nil {
		next := r.unbuffer()
		next.started()
		go next.do()
	} else {
		r.running--
	}
	r.mayWant()
}

func (r *run) finish(t *task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.tasks, t)
	r.underWay.Done()
	r.mayWant()
}

// mayWant wakes fetchAll if jobs are wanted. The caller holds mu.
func (r *run) mayWant() {
	if r.wanted() > 0 {
		signal(r.changed)
	}
}
