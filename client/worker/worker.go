package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
)

// Worker runs the handlers of a mux. Make one with New.
type Worker struct {
	client  *client.Client
	mux     *Mux
	options Options
}

// New makes a Worker. What is wrong with the mux or the options is the error of Run.
func New(c *client.Client, mux *Mux, o Options) *Worker { return &Worker{c, mux, o} }

// Run handles jobs until ctx is done, and returns nil then. It returns an error at once if the
// mux or the options are wrong (client.ErrInvalid; nothing was done), if the Client is closed, or if
// Redis refuses what can't be put right by waiting, such as a wrong password. While Redis is away it
// keeps trying.
//
// To stop it begins no more jobs. Handlers that run have Options.Grace to finish, then their contexts end,
// and what is not finished a second later is given back without counting as an attempt.
//
// A handler that runs even then is left to itself (Hooks.Stuck). A result that Redis can't be told by
// then is given up: that job is delivered again.
//
// Run may be called again, and each call stands for itself.
func (w *Worker) Run(ctx context.Context) error {
	r, err := w.newRun(ctx)
	if err != nil {
		return err
	}
	return r.run(ctx)
}

// newRun fails if the worker is wrong.
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
	return newRun(w.client, topics, w.options.withDefaults()), nil
}

// run is a Run under way.
type run struct {
	client  *client.Client
	options Options
	served  []*served
	byName  map[string]*served

	stopping context.Context // done when no more jobs are begun
	// handlers is the context of all handlers.
	handlers  context.Context
	interrupt context.CancelCauseFunc
	// reporting is the context of what Redis is told.
	reporting     context.Context
	stopReporting context.CancelFunc
	maxHeld       int            // jobs at most: that are handled, or wait for it, or whose end Redis is to be told
	underWay      sync.WaitGroup // the fetching and the tasks

	mu        sync.Mutex
	tasks     map[*task]bool // under way
	running   int            // handlers
	buffered  []*task        // reserved, and the next to be handled
	ageing    bool           // a timer looks after the buffer
	pace      pace
	renewAt   time.Time     // when leases are to be extended next
	extending int           // calls that extend leases, under way
	changed   chan struct{} // holds one: what can be fetched has changed
	renewed   chan struct{} // holds one: there is a task whose lease has to be extended
}

// served is a topic with all its options, and how much of it is under way.
type served struct {
	topic
	held   int // running handlers, and jobs in the buffer
	bucket tokens
	draw   float64 // see inOrder

	failure     fetchFailure // of this topic alone
	brokenUntil time.Time    // when it is tried again; zero if it is well
}

// errStopping is why handlers' contexts end when the worker stops.
var errStopping = errors.New("the worker stops")

func newRun(c *client.Client, topics []topic, o Options) *run {
	r := &run{
		client: c, options: o, maxHeld: 2*o.Concurrency + 4*maxAhead,
		byName: map[string]*served{}, tasks: map[*task]bool{}, pace: pace{since: time.Now()},
		changed: make(chan struct{}, 1), renewed: make(chan struct{}, 1),
	}
	for _, t := range topics {
		t.options = t.options.within(o, r.maxHeld)
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

// open makes the run ready for tasks, until ctx is done. The func that it returns ends it.
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
		r.giveBackAll()
	})
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done(): // Redis may hang, and a fetch with it
	}
	r.stop()
	return err
}

const (
	// interruptWait is how long handlers have to return when their contexts have ended.
	interruptWait = time.Second
	// releaseWait is how long it may take then to give back what is left.
	releaseWait = 3 * time.Second
	// firstPause and lastPause are those between calls of a Redis that is away.
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// fetchAll reserves jobs and starts their tasks, until ctx is done.
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

// fetchSome waits until jobs can be fetched, and there are some, and starts their tasks.
func (r *run) fetchSome(ctx context.Context, failure *fetchFailure) error {
	r.tryBroken(ctx, time.Now())
	o, wait := r.plan()
	if o.Max == 0 {
		r.await(ctx, wait)
		return nil
	}
	if failure.away { // A fetch waits for a job, however long Redis has been back.
		if err := r.client.Ping(ctx); err != nil {
			return err
		}
		failure.recovered()
	}
	list, err := r.fetch(ctx, o, wait)
	if len(list) > 0 {
		failure.recovered()
	}
	r.start(list)
	if r.isolate(ctx, o.Topics, err) {
		return nil
	}
	return err
}

// giveBackAll gives back what was fetched too late.
func (r *run) giveBackAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.buffered) > 0 {
		r.giveBackFirst()
	}
}

// sleep waits for so long, or until ctx is done.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// await waits until something has changed, or for so long; 0 is without limit.
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

// fetch reserves jobs. It returns nothing and no error when more topics can be served
// than it was called for; that is the case after wait at the latest, if that is not 0.
func (r *run) fetch(ctx context.Context, o client.FetchOptions, wait time.Duration) ([]*client.Delivery, error) {
	fetching, cancel := context.WithCancel(ctx)
	var awaiting sync.WaitGroup
	defer awaiting.Wait() // or it would take a change that comes behind the fetch for its own
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

// fetchOne reserves a job of the topic, if there is one.
func (r *run) fetchOne(ctx context.Context, s *served) ([]*client.Delivery, error) {
	return r.client.Fetch(ctx, client.FetchOptions{Topics: []client.FetchTopic{s.fetchTopic(1)}, Max: 1, NoWait: true})
}

// fetchTopic asks for so many jobs of the topic.
func (s *served) fetchTopic(most int) client.FetchTopic {
	return client.FetchTopic{Topic: s.name, Max: most, Lease: s.options.Lease, MaxAttempts: s.options.MaxAttempts}
}

// start begins the tasks of what was fetched, as many as there are places for, and keeps the others.
func (r *run) start(list []*client.Delivery) {
	if len(list) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range list {
		t := r.enter(d)
		if r.running < r.options.Concurrency && r.stopping.Err() == nil {
			r.running++
			go t.do()
		} else {
			r.buffer(t)
		}
	}
}

// enter makes a task of a delivery. mu must be held.
func (r *run) enter(d *client.Delivery) *task {
	t := newTask(r, r.byName[d.Topic], d)
	r.tasks[t] = true
	r.underWay.Add(1)
	t.served.held++
	t.served.bucket.take()
	if t.renewAt.Before(r.renewAt) {
		signal(r.renewed)
	}
	return t
}

// handled begins the next task in the place of one whose handler has returned.
func (r *run) handled(t *task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.served.held--
	r.pace.handled++
	if len(r.buffered) > 0 && r.stopping.Err() == nil {
		go r.unbuffer().do()
	} else {
		r.running--
	}
	r.mayWant()
}

// finish takes a task off, once.
func (r *run) finish(t *task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.tasks, t)
	r.underWay.Done()
	r.mayWant()
}

// mayWant has fetchAll look whether jobs are wanted, if so. mu must be held.
func (r *run) mayWant() {
	if r.wanted() > 0 {
		signal(r.changed)
	}
}

// stop ends the tasks.
func (r *run) stop() {
	ended := make(chan struct{})
	go func() {
		r.underWay.Wait()
		close(ended)
	}()
	endWithin := func(limit time.Duration) bool {
		select {
		case <-ended:
			return true
		case <-time.After(limit):
			return false
		}
	}
	if endWithin(r.options.Grace) {
		return
	}
	r.interrupt(errStopping)
	if endWithin(interruptWait) {
		return
	}
	for _, t := range r.unsettled() {
		go t.giveUp()
	}
	if endWithin(releaseWait) {
		return
	}
	r.stopReporting()
	endWithin(interruptWait)
}

// unsettled are the tasks whose handlers still run. What these return does not count any more.
func (r *run) unsettled() (list []*task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for t := range r.tasks {
		if !t.settling {
			t.settling = true
			list = append(list, t)
		}
	}
	return list
}
