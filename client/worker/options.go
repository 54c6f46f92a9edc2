package worker

import (
	"cmp"
	"log/slog"
	"math"
	"math/rand/v2"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
)

// Options of a Worker. The zero value works. A time above 0 and below a millisecond lacks its unit (a bare
// 30 is 30 ns), and is the error of Run.
type Options struct {
	// Concurrency is how many jobs are handled at a time, of all topics together: 10,000
	// at most. 0 means 10.
	Concurrency int
	// Lease is how long a job is reserved for at a time; it is extended at a third of that,
	// as long as its handler runs. It says how long the jobs of a worker that has crashed rest before they
	// are delivered again. 0 means as long as the producer says (client.TTR), or else 30 s. Less than
	// 100 ms counts as that: some round trips are needed to extend it.
	Lease time.Duration
	// Timeout is how long a handler has. Then its context ends; what it returns counts as
	// ever. 0 means no limit.
	Timeout time.Duration
	// MaxAttempts is how often a job is tried whose producer does not say so
	// (client.MaxAttempts). 0 means 10.
	MaxAttempts int
	// Backoff is after how long a job is tried again whose attempt, 1 or more, has failed.
	// nil means DefaultBackoff.
	Backoff func(attempt int, err error) time.Duration
	// Grace is how long handlers may go on when the worker is to stop, before their
	// contexts end. 0 means 10 s, less than 0 no time.
	Grace time.Duration
	// Logger is told of failures. nil means slog.Default().
	Logger *slog.Logger
	// Hooks are told what happens, for metrics.
	Hooks Hooks
}

// Hooks are functions that are told what happens. They must be safe for concurrent use, and
// return soon. nil ones are not called.
//
// Each delivery that was begun has one Started, and then one of Done, Retried, Buried, Snoozed, Released
// and LeaseLost. Failed comes before Retried or Buried, and Stuck before Released. What a handler does
// after Stuck is told to nobody.
type Hooks struct {
	Started func(job *Job)                                 // a handler begins, Job.LateBy after the job's due time
	Done    func(job *Job, took time.Duration)             // it returned nil, and the job is acknowledged
	Failed  func(job *Job, took time.Duration, err error)  // it returned an error, or panicked
	Retried func(job *Job, delay time.Duration, err error) // the job will be delivered again
	Buried  func(job *Job, err error)                      // the job is a dead letter
	Snoozed func(job *Job, delay time.Duration)            // the job will be delivered again, see Snooze
	// Released: the job was given back, as the worker stops.
	Released func(job *Job)
	// LeaseLost: the job was not ours any more, or Redis could not be told what came of it. It
	// may be delivered again.
	LeaseLost func(job *Job)
	// Stuck: the worker stops, and the handler does not return although its context has ended.
	Stuck func(job *Job)
}

// TopicOptions say how the jobs of one topic are served. Lease, Timeout, MaxAttempts and Backoff are as in
// Options, and count more; 0 and nil mean what those say.
type TopicOptions struct {
	// Concurrency is how many of its jobs are handled at a time. 0 means as many as in all.
	Concurrency int
	// Priority: as long as a topic of a higher one has jobs, those of lower ones wait. Those that were
	// reserved before these came, as few as handlers get done within 10 ms, don't. With several partitions new ones may be
	// seen later: see client.Fetch.
	Priority int
	// Weight is how often the topic is served first among those of the same priority. 0
	// means 1. With several partitions it counts less, as a call takes further topics of one partition.
	Weight int
	// Rate is how many of its jobs are begun a second at most by this worker. 0 means no limit.
	Rate float64

	Lease time.Duration
	// Timeout may be less than 0, which means no limit.
	Timeout     time.Duration
	MaxAttempts int
	Backoff     func(attempt int, err error) time.Duration
	// Middleware is put around its handler, inside that of the mux, the first one outermost.
	Middleware []Middleware
}

// TopicOption sets some of the TopicOptions.
type TopicOption func(*TopicOptions)

// With sets all of them.
func With(o TopicOptions) TopicOption { return func(to *TopicOptions) { *to = o } }

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
	case o.Lease < 0 || o.Lease > client.MaxLease || store.LacksUnit(o.Lease):
		return wrong("lease", "%v: want 1ms to %v, or 0 for that of the worker; %s", o.Lease, client.MaxLease, store.Units)
	case store.LacksUnit(o.Timeout):
		return wrong("timeout", "%v: want 1ms or more, 0 for that of the worker, or less than 0 for no limit; %s", o.Timeout, store.Units)
	case o.MaxAttempts < 0 || o.MaxAttempts > math.MaxInt32:
		return wrong("max attempts", "%d: want 1 to %d, or 0 for those of the worker", o.MaxAttempts, math.MaxInt32)
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
	defaultAttempts    = 10
	defaultGrace       = 10 * time.Second
)

func (o Options) check() error {
	switch {
	case o.Concurrency < 0 || o.Concurrency > maxConcurrency:
		return invalid("concurrency", "%d is not from 1 to %d; 0 means %d", o.Concurrency, maxConcurrency, defaultConcurrency)
	case o.Lease < 0 || o.Lease > client.MaxLease:
		return invalid("lease", "%v is not from 0 to %v", o.Lease, client.MaxLease)
	case o.Timeout < 0:
		return invalid("timeout", "%v is negative; 0 means no limit", o.Timeout)
	case o.MaxAttempts < 0 || o.MaxAttempts > math.MaxInt32:
		return invalid("max attempts", "%d is not from 1 to %d; 0 means %d", o.MaxAttempts, math.MaxInt32, defaultAttempts)
	}
	return cmp.Or(checkUnit("lease", o.Lease), checkUnit("timeout", o.Timeout), checkUnit("grace", o.Grace))
}

func (o Options) withDefaults() Options {
	o.Concurrency = cmp.Or(o.Concurrency, defaultConcurrency)
	o.MaxAttempts = cmp.Or(o.MaxAttempts, defaultAttempts)
	o.Grace = max(cmp.Or(o.Grace, defaultGrace), 0)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Backoff == nil {
		o.Backoff = DefaultBackoff
	}
	return o
}

// within are the options with the worker's in place of those that are 0 or nil. Without a Concurrency a
// topic may hold maxHeld jobs, as all of them together.
func (o TopicOptions) within(w Options, maxHeld int) TopicOptions {
	if o.Concurrency = min(o.Concurrency, w.Concurrency); o.Concurrency == 0 {
		o.Concurrency = maxHeld
	}
	o.Weight = max(o.Weight, 1)
	if o.Lease = cmp.Or(o.Lease, w.Lease); o.Lease > 0 { // else as the job says
		o.Lease = max(o.Lease, store.ShortestLease)
	}
	o.Timeout = cmp.Or(o.Timeout, w.Timeout)
	o.MaxAttempts = cmp.Or(o.MaxAttempts, w.MaxAttempts)
	if o.Backoff == nil {
		o.Backoff = w.Backoff
	}
	return o
}

// DefaultBackoff is a random time from 1 ms up to 2 s after the first attempt, 4 s after the second, and so
// on, up to an hour ("full jitter": what failed together is not tried again together).
func DefaultBackoff(attempt int, _ error) time.Duration {
	longest := time.Hour
	if attempt < 12 { // 2^12 s are more
		longest = time.Second << max(attempt, 0)
	}
	return time.Millisecond + rand.N(longest-time.Millisecond+1)
}
