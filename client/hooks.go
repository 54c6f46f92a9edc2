package client

import (
	"context"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/wait"
)

// Hooks observe what a Client does with jobs, for traces, metrics and logs: see [WithHooks]. Those that are nil are
// skipped. Module client/delayerotel makes Hooks for OpenTelemetry.
//
// Hooks must be safe for concurrent use and return soon, because calls wait for them. If one panics, that is logged,
// and the call continues.
type Hooks struct {
	// Push is called for Push, PushAt, PushBatch and a Topic's pushes.
	Push Hook
	// Deliver is called for Pop, BPop, Reserve and Fetch, also for those that get no job.
	Deliver Hook
	// Settle is called for Ack, Retry, Release, Bury, Extend, AckBatch and ExtendBatch.
	Settle Hook
	// Handle is called around a worker's handler, and by Delivery.Handling. Its Call has the handler's error, or none
	// if the handler releases the job.
	Handle Hook

	// Stale is called with the IDs of ready queue entries whose jobs are gone: their lifetime has ended, they were
	// removed from the middle of a very long queue, or they were pushed again while ready and taken by another entry.
	// It must not call the Client.
	Stale func(ids []string)
	// Lost is called if the reply to a pop does not arrive, with the most jobs that may have been lost with it; see
	// ErrLost. It must not call the Client.
	Lost func(jobs int)
}

// Hook is called when a call begins, before its arguments are checked. It returns the context for the call, and a
// function that is called once when the call is done. Either may be nil: the context stays the same, or nothing is
// called. It runs in the caller's goroutine.
type Hook func(ctx context.Context, call *Call) (_ context.Context, done func())

// Call is a call as hooks see it. Err, and the results in Jobs, are set when it is done.
type Call struct {
	// Operation is the name that the call has in errors, such as "push", "push batch" or "ack". It is "handle" for
	// a handler.
	Operation string
	// Topics are the topics that a call takes jobs from; nil for other calls.
	Topics []string
	// Jobs are the call's jobs. A call that takes jobs has those that it got, when it is done.
	Jobs []CallJob
	// Err is what the call returns.
	Err error
}

// CallJob is a job of a Call.
type CallJob struct {
	// Message is the job. A Push hook may set or change its Headers, before they are checked; other changes have no
	// effect. The ID of a push that has none is set when the push is done.
	Message
	// Attempt and LateBy are as in Delivery; 0 and -1 for jobs that are pushed or popped.
	Attempt int
	LateBy  time.Duration
	// Outcome is what a push did.
	Outcome Outcome
	// Err is the result for this job.
	Err error
}

// WithHooks adds hooks. The hooks of several are called in this order when a call begins, and in the reverse order
// when it is done.
func WithHooks(h Hooks) Option {
	return func(o *options) {
		o.hooks.push = appendHook(o.hooks.push, h.Push)
		o.hooks.deliver = appendHook(o.hooks.deliver, h.Deliver)
		o.hooks.settle = appendHook(o.hooks.settle, h.Settle)
		o.hooks.handle = appendHook(o.hooks.handle, h.Handle)
		if h.Stale != nil {
			o.hooks.stale = append(o.hooks.stale, h.Stale)
		}
		if h.Lost != nil {
			o.hooks.lost = append(o.hooks.lost, h.Lost)
		}
	}
}

func appendHook(list []Hook, h Hook) []Hook {
	if h == nil {
		return list
	}
	return append(list, h)
}

// allHooks are the hooks of a Client.
type allHooks struct {
	push, deliver, settle, handle []Hook
	stale                         []func(ids []string)
	lost                          []func(jobs int)
}

// begun calls the hooks of a call that begins. It returns the context for the call, and a function to call when the
// call is done. A nil ctx is left to the call, which refuses it.
func (c *Client) begun(ctx context.Context, hooks []Hook, call *Call) (context.Context, func()) {
	if ctx == nil {
		return nil, func() {}
	}
	var all []func()
	for _, hook := range hooks {
		c.unlessItPanics(func() {
			next, done := hook(ctx, call)
			if next != nil {
				ctx = next
			}
			if done != nil {
				all = append(all, done)
			}
		})
	}
	return ctx, func() {
		for _, done := range slices.Backward(all) {
			c.unlessItPanics(done)
		}
	}
}

func (c *Client) unlessItPanics(hook func()) {
	defer func() {
		if why := recover(); why != nil {
			c.logger.Error("delayer: a hook has panicked", "panic", why, "stack", string(debug.Stack()))
		}
	}()
	hook()
}

// pushing calls the hooks of a push, and gives the jobs the headers that the hooks have set.
func (c *Client) pushing(ctx context.Context, operation string, jobs []Item) (_ context.Context, done func([]Result, error)) {
	call := &Call{Operation: operation, Jobs: make([]CallJob, len(jobs))}
	for i, job := range jobs {
		job.Headers = maps.Clone(job.Headers) // which may be shared with other pushes
		call.Jobs[i] = CallJob{Message: job.Message, LateBy: -1}
	}
	ctx, end := c.begun(ctx, c.hooks.push, call)
	for i := range jobs {
		jobs[i].Headers = call.Jobs[i].Headers
	}
	return ctx, func(results []Result, err error) {
		call.setResults(results, err)
		end()
	}
}

// delivering calls the hooks of a call that takes jobs.
func (c *Client) delivering(ctx context.Context, operation string, topics ...string) (_ context.Context, done func(wait.Jobs, error)) {
	call := &Call{Operation: operation, Topics: topics}
	ctx, end := c.begun(ctx, c.hooks.deliver, call)
	return ctx, func(got wait.Jobs, err error) {
		for i, job := range got.Jobs {
			j := CallJob{Message: Message(job), LateBy: -1}
			if len(got.Leases) > 0 {
				j.Attempt, j.LateBy = got.Leases[i].Attempt, got.Leases[i].Late
			}
			call.Jobs = append(call.Jobs, j)
		}
		call.Err = err
		end()
	}
}

// settling calls the hooks of a call that settles deliveries or extends their leases.
func (c *Client) settling(ctx context.Context, operation string, deliveries ...*Delivery) (_ context.Context, done func([]Result, error)) {
	call := &Call{Operation: operation, Jobs: each(deliveries, (*Delivery).callJob)}
	ctx, end := c.begun(ctx, c.hooks.settle, call)
	return ctx, func(results []Result, err error) {
		call.setResults(results, err)
		end()
	}
}

// Handling calls the hooks' Handle, and returns their context, for the code that handles the job, and a function to
// call once with that code's result. Package worker does so itself.
func (d *Delivery) Handling(ctx context.Context) (_ context.Context, done func(error)) {
	if ctx == nil || d == nil || d.client == nil || d.client.hooks.handle == nil {
		return ctx, func(error) {}
	}
	call := &Call{Operation: "handle", Jobs: []CallJob{d.callJob()}}
	ctx, end := d.client.begun(ctx, d.client.hooks.handle, call)
	return ctx, func(err error) {
		call.setResults(nil, err)
		end()
	}
}

func (d *Delivery) callJob() CallJob {
	if d == nil {
		return CallJob{LateBy: -1}
	}
	return CallJob{Message: d.Message, Attempt: d.Attempt, LateBy: d.LateBy}
}

// setResults sets the result of each job. Without results, because nothing was sent, all have the call's error.
func (call *Call) setResults(results []Result, err error) {
	call.Err = err
	for i := range call.Jobs {
		job := &call.Jobs[i]
		if results == nil {
			job.Err = err
			continue
		}
		if r := results[i]; r.ID != "" {
			job.ID = r.ID
		}
		job.Outcome, job.Err = results[i].Outcome, results[i].Err
	}
}
