package worker

import (
	"cmp"
	"log/slog"
	"math"
	"math/rand/v2"
	"time"

	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/store"
)

// Options of a Worker. The zero value works. A duration above 0 and below a millisecond lacks its unit (a
// bare 30 is 30 ns), so Run returns an error.
type Options struct {
	// Concurrency is how many jobs of all topics together are handled at a time, 10,000 at most. 0 means 10.
	Concurrency int
	// Lease is how long a job is reserved; it is extended after a third of that while its handler runs. After
	// a crash of the worker, its jobs are redelivered when their leases end. A job that runs longer than its lease is
	// logged each time that another one is over. 0 means as the producer says (client.JobOptions), or 30 s. The minimum is
	// 100 ms, because extending takes some round trips.
	Lease time.Duration
	// Timeout is how long a handler may run. Then its context ends; its result still counts. 0 or less means
	// no limit.
	Timeout time.Duration
	// MaxAttempts is the number of attempts of jobs whose producer set none (client.JobOptions). 0 means
	// 25, a negative number no limit.
	MaxAttempts int
	// Backoff returns the delay before a job is tried again after job.Attempt has failed with err. nil means DefaultBackoff,
	// which also takes its place if it panics.
	Backoff func(job *Job, err error) time.Duration
	// Grace is how long handlers may continue when the worker stops, before their contexts end. 0 means 10 s,
	// a negative value no time.
	Grace time.Duration
	// StuckAfter is how long a handler may continue after its context has ended because of its timeout or a lost lease. Then the
	// worker gives it up: the attempt has failed, the job is retried or buried like any other, and another handler gets the
	// slot; see Hooks.Stuck. 0 means 10 s, a negative value never.
	StuckAfter time.Duration
	// Logger logs failures. nil means slog.Default().
	Logger *slog.Logger
	// Hooks are called for events, for example to update metrics.
	Hooks Hooks
}

// Hooks are called when something happens; nil ones are skipped. They must be safe for concurrent use and
// return quickly.
//
// Each delivery calls Started once, then one of Done, Retried, Buried, Released and LeaseLost.
// Failed comes before Retried or Buried. Stuck comes before Failed, LeaseLost or, when the worker stops, Released. What a
// handler does after Stuck is not reported. A panic of a hook is logged.
type Hooks struct {
	Started func(job *Job)                                 // a handler starts, Job.LateBy after the job's due time
	Done    func(job *Job, took time.Duration)             // it returned nil and the job is acknowledged
	Failed  func(job *Job, took time.Duration, err error)  // it returned an error or panicked
	Retried func(job *Job, delay time.Duration, err error) // the job will be delivered again
	Buried  func(job *Job, err error)                      // the job is a dead letter
	// Released: the job will be delivered again after the delay, and the attempt does not count. See Release; it is at once if
	// the worker stops.
	Released func(job *Job, delay time.Duration)
	// LeaseLost: the lease was lost or the result could not be stored. The job may be delivered again.
	LeaseLost func(job *Job)
	// Stuck: the handler has not returned although its context has ended, for Options.StuckAfter or because the worker stops.
	Stuck func(job *Job)
}

// TopicOptions are options of one topic. Lease, Timeout, MaxAttempts and Backoff override those of Options,
// unless they are 0 or nil.
type TopicOptions struct {
	// Concurrency is how many of the topic's jobs are handled at a time: 1 to Options.Concurrency. 0 means
	// Options.Concurrency.
	Concurrency int
	// Priority: jobs of lower priority wait while topics of higher priority have jobs,
	// except for jobs already reserved, as many as the handlers finish within 10 ms.
	// See client.Fetch for how soon new jobs are seen, and where the order holds.
	Priority int
	// Weight is how often the topic is served first among those of its priority. 0 means 1.
	Weight int
	// Rate is how many of the topic's jobs this worker starts per second. 0 means no limit.
	Rate float64

	Lease time.Duration
	// Timeout and MaxAttempts may be negative for no limit.
	Timeout     time.Duration
	MaxAttempts int
	Backoff     func(job *Job, err error) time.Duration
	// Middleware wraps the topic's handler inside that of the mux; the first one is outermost.
	Middleware []Middleware
}

func (o TopicOptions) check(name string) error {
	wrong := func(field, format string, args ...any) error {
		return invalid(field, "that of topic %s is "+format, append([]any{store.Quote(name)}, args...)...)
	}
	switch {
	case o.Concurrency < 0:
		return wrong("concurrency", "%d: want 1 or more, or 0 for as many as in all", o.Concurrency)
	case o.Weight < 0:
		return wrong("weight", "%d: want 1 or more, or 0, which means 1", o.Weight)
	case !(o.Rate >= 0) || math.IsInf(o.Rate, 0):
		return wrong("rate", "%v: want jobs a second, or 0 for no limit", o.Rate)
	case o.Lease < 0 || o.Lease > store.MaxLease || store.LacksUnit(o.Lease):
		return wrong("lease", "%s: want 1ms to %s, or 0 for that of the worker; %s", duration.Format(o.Lease), duration.Bound(store.MaxLease), store.Units)
	case store.LacksUnit(o.Timeout):
		return wrong("timeout", "%v: want 1ms or more, 0 for that of the worker, or less than 0 for no limit; %s", duration.Format(o.Timeout), store.Units)
	case o.MaxAttempts > math.MaxInt32:
		return wrong("max attempts", "%d: want 1 to %d, 0 for those of the worker, or less than 0 for no limit", o.MaxAttempts, math.MaxInt32)
	}
	return checkMiddleware(o.Middleware)
}

func checkUnit(field string, d time.Duration) error {
	if err := store.CheckUnit(d); err != nil {
		return invalid(field, "%v", err)
	}
	return nil
}

const (
	maxConcurrency     = 10_000
	defaultConcurrency = 10
	defaultGrace       = 10 * time.Second
	defaultStuckAfter  = 10 * time.Second
)

func (o Options) check() error {
	switch {
	case o.Concurrency < 0 || o.Concurrency > maxConcurrency:
		return invalid("concurrency", "%d is not from 1 to %d; 0 means %d", o.Concurrency, maxConcurrency, defaultConcurrency)
	case o.Lease < 0 || o.Lease > store.MaxLease:
		return invalid("lease", "%s is not from 0 to %s", duration.Format(o.Lease), duration.Bound(store.MaxLease))
	case o.MaxAttempts > math.MaxInt32:
		return invalid("max attempts", "%d is above %d; 0 means %d, a negative number no limit", o.MaxAttempts, math.MaxInt32, store.DefaultMaxAttempts)
	}
	return cmp.Or(checkUnit("lease", o.Lease), checkUnit("timeout", o.Timeout), checkUnit("grace", o.Grace), checkUnit("stuck after", o.StuckAfter))
}

func (o Options) withDefaults() Options {
	o.Concurrency = cmp.Or(o.Concurrency, defaultConcurrency)
	o.Grace = max(cmp.Or(o.Grace, defaultGrace), 0)
	o.StuckAfter = cmp.Or(o.StuckAfter, defaultStuckAfter)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Backoff == nil {
		o.Backoff = DefaultBackoff
	}
	return o
}

// within returns the options with the worker's in place of those that are 0 or nil. Without a Concurrency of
// its own a topic may have maxActive jobs in hand, as many as all together.
func (o TopicOptions) within(w Options, maxActive int) TopicOptions {
	o.Concurrency = cmp.Or(o.Concurrency, maxActive)
	o.Weight = max(o.Weight, 1)
	if o.Lease = cmp.Or(o.Lease, w.Lease); o.Lease > 0 { // otherwise as the job says
		o.Lease = max(o.Lease, store.ShortestLease)
	}
	o.Timeout = cmp.Or(o.Timeout, w.Timeout)
	o.MaxAttempts = cmp.Or(o.MaxAttempts, w.MaxAttempts)
	if o.Backoff == nil {
		o.Backoff = w.Backoff
	}
	return o
}

// DefaultBackoff returns attempt³ seconds, 4 hours at most, times a random number from 0.5 to 1.5, so that jobs that
// failed together are not retried together: 1 s after the first attempt, 8 s after the second, 17 minutes after the
// tenth. The delays between 25 attempts add up to 25 hours on average, and to 12.5 at least.
func DefaultBackoff(job *Job, _ error) time.Duration {
	n := time.Duration(min(max(job.Attempt, 1), 25)) // 25³ s are more than 4 hours
	mean := min(n*n*n*time.Second, 4*time.Hour)
	return mean/2 + rand.N(mean)
}
