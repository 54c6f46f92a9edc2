package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
)

// task is a delivery from its reservation to its settlement.
type task struct {
	*run
	served   *served
	delivery *client.Delivery
	job      *Job
	ctx      context.Context
	cancel   context.CancelCauseFunc // ends the handler's context
	untold   bool                    // the result was not stored

	// Guarded by run.mu:
	renewAt       time.Time
	bufferedUntil time.Time // when it is released, unless it has a slot by then
	runs          bool      // its handler has been started
	giveUpAt      time.Time // when to give the handler up, if its context has ended by then; zero if it has no timeout
	givenUp       bool
	slotFreed     bool // when it was given up
	extending     bool // a call extends the lease
	lost          bool // the lease is lost
	settling      bool // the job is being settled
}

type timeoutError time.Duration

func (t timeoutError) Error() string {
	return fmt.Sprintf("the timeout of %v has passed", duration.Format(time.Duration(t)))
}

func (t timeoutError) Unwrap() error { return context.DeadlineExceeded }

func newTask(r *run, s *served, d *client.Delivery) *task {
	t := &task{run: r, served: s, delivery: d}
	t.job = &Job{Message: d.Message, Attempt: d.Attempt, MaxAttempts: d.MaxAttempts, Token: d.Token, LateBy: d.LateBy}
	t.ctx, t.cancel = context.WithCancelCause(context.WithValue(r.handlers, jobKey{}, t.job))
	t.renewAt = renewalOf(d)
	return t
}

var errExited = errors.New("the handler has called runtime.Goexit")

// do handles the job and settles it, unless it was given up. It returns the handler's error.
func (t *task) do() (err error) {
	began := time.Now()
	err = errExited
	ctx, handled := t.delivery.Handling(t.ctx)
	defer func() { // runs even if the handler does not return
		why := context.Cause(t.ctx)
		handled(failureOf(err))
		t.cancel(nil)
		t.handled(t)
		if t.beginToSettle() {
			defer t.finish(t)
			t.settle(settleContext{t.reporting, ctx}, err, why, time.Since(began))
		}
	}()
	t.tell("Started", t.options.Hooks.Started)
	if timeout := t.served.options.Timeout; timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, timeoutError(timeout))
		defer cancel()
	}
	err = t.served.handler.Handle(ctx, t.job)
	return err
}

// tell calls a hook that needs only the job.
func (t *task) tell(name string, hook func(*Job)) { t.hook(name, hook != nil, func() { hook(t.job) }) }

// hook calls a hook, if it is set. A panic of it is logged instead of ending the process.
func (t *task) hook(name string, isSet bool, call func()) {
	if isSet {
		defer t.logPanic(name)
		call()
	}
}

// logPanic, deferred, ends a panic of one of the program's functions and logs it.
func (t *task) logPanic(name string) {
	if value := recover(); value != nil {
		t.log().Error("panic in "+name, "panic", value, "stack", string(debug.Stack()))
	}
}

// beginToSettle reports whether the caller is the first to settle the job; only that one settles it and
// finishes the task.
func (t *task) beginToSettle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.settling {
		return false
	}
	t.settling = true
	return true
}

// releaseUnstarted releases a job that was not started. No hook is called, because to others it was ready all
// along.
func (t *task) releaseUnstarted() {
	defer t.finish(t)
	defer t.cancel(nil)
	t.report(t.reporting, "release", t.delivery.Release)
}

// leave releases the job although its handler still runs, because the worker stops.
func (t *task) leave() {
	defer t.finish(t)
	t.counters.stuck.Add(1)
	t.log().Error("handler does not return, though its context has ended")
	t.tell("Stuck", t.options.Hooks.Stuck)
	t.release(t.reporting)
}

// settleContext is the context of a call that settles a handled job. It ends with run.reporting, and has the values of
// the handler's context, to which the client's hooks add.
type settleContext struct {
	context.Context
	handler context.Context
}

func (c settleContext) Value(key any) any { return c.handler.Value(key) }

// leaseLost is logged when a job is no longer ours.
const leaseLost = "lease lost: it ended, or the job was pushed anew or removed"

// settle settles the job. why is the reason for which the handler's context ended before it returned, if it
// did.
func (t *task) settle(ctx context.Context, err, why error, took time.Duration) {
	hooks := &t.options.Hooks
	switch {
	case err == nil:
		if t.settled(t.report(ctx, "acknowledge", t.delivery.Ack)) {
			t.hook("Done", hooks.Done != nil, func() { hooks.Done(t.job, took) })
		}
	case why == errStopping:
		t.release(ctx)
	case why == client.ErrLeaseLost:
		t.log().Warn(leaseLost)
		t.settled(false)
	default:
		t.failed(ctx, err, took)
	}
}

// failed handles an error of the handler: it retries the job, unless the error asks for something else.
func (t *task) failed(ctx context.Context, err error, took time.Duration) {
	hooks := &t.options.Hooks
	var v *verdict
	if !errors.As(err, &v) {
		v = &verdict{kind: retryAfter, delay: t.backoff(err)}
	}
	delay := min(max(v.delay, 0), client.MaxDelay)
	if store.LacksUnit(delay) { // a computed one
		delay = time.Millisecond
	}
	if v.kind == snooze {
		t.backOff(v)
		ok := t.report(ctx, snooze, func(ctx context.Context) error { return t.delivery.Snooze(ctx, delay) })
		if t.settled(ok) {
			t.hook("Snoozed", hooks.Snoozed != nil, func() { hooks.Snoozed(t.job, delay) })
		}
		return
	}
	t.hook("Failed", hooks.Failed != nil, func() { hooks.Failed(t.job, took, err) })
	dead := v.kind == bury
	ok := t.report(ctx, v.kind, func(ctx context.Context) error {
		if v.kind == bury {
			return t.delivery.Bury(ctx, err.Error(), client.Cause(err))
		}
		failed := t.delivery.Retry(ctx, delay, client.Cause(err))
		if errors.Is(failed, client.ErrExhausted) {
			dead, failed = true, nil
		}
		return failed
	})
	switch {
	case !t.settled(ok):
	case dead:
		t.log().Error("job failed, it is a dead letter now", "error", err)
		t.hook("Buried", hooks.Buried != nil, func() { hooks.Buried(t.job, err) })
	default:
		t.log().Warn("job failed, it will be tried again", "error", err, "in", duration.Format(delay))
		t.hook("Retried", hooks.Retried != nil, func() { hooks.Retried(t.job, delay, err) })
	}
}

// backoff returns the delay before the next attempt. If the program's function panics, it is DefaultBackoff's.
func (t *task) backoff(err error) (delay time.Duration) {
	delay = DefaultBackoff(t.job.Attempt, err)
	defer t.logPanic("Backoff")
	return t.served.options.Backoff(t.job.Attempt, err)
}

// backOff backs off from the topic that the error names. The job is settled later, and redelivered in any
// case.
func (t *task) backOff(v *verdict) {
	if v.topic == "" || v.delay <= 0 {
		return
	}
	if err := t.client.BackOff(t.reporting, v.topic, v.delay); err != nil {
		t.log().Error("can't back off", "from", v.topic, "error", err)
	}
}

func (t *task) release(ctx context.Context) {
	if t.settled(t.report(ctx, "release", t.delivery.Release)) {
		t.tell("Released", t.options.Hooks.Released)
	}
}

// settled returns ok. If it is false it calls LeaseLost, because the job may be delivered again.
func (t *task) settled(ok bool) bool {
	if t.untold = !ok; !ok {
		t.tell("LeaseLost", t.options.Hooks.LeaseLost)
	}
	return ok
}

// report stores the result, and while Redis is down retries until the lease has ended. It reports whether it
// succeeded.
func (t *task) report(ctx context.Context, what string, call func(context.Context) error) bool {
	for pause := new(redisconn.Backoff); ; {
		err := call(ctx)
		next := pause.Next(firstPause, lastPause)
		switch {
		case err == nil:
			return true
		case errors.Is(err, client.ErrLeaseLost):
			t.log().Warn(leaseLost)
			return false
		case !store.Temporary(err) || errors.Is(err, client.ErrClosed) || ctx.Err() != nil || time.Until(t.delivery.Deadline()) < next:
			t.log().Error("can't "+what+" the job, it will be delivered again", "error", err)
			return false
		}
		sleep(ctx, next)
	}
}

func (t *task) log() *slog.Logger {
	return t.options.Logger.With(t.job.LogArgs()...)
}

// verdict is an error that decides what happens to the job.
type verdict struct {
	err   error
	kind  string
	delay time.Duration
	topic string // topic to back off from, or ""
}

// What happens to the job.
const (
	retryAfter = "retry"
	snooze     = "snooze"
	bury       = "bury"
)

// failureOf returns a handler's error, but nil for a job that it snoozes, because nothing has failed.
func failureOf(err error) error {
	var v *verdict
	if errors.As(err, &v) && v.kind == snooze {
		return nil
	}
	return err
}

func (v *verdict) Error() string { return v.err.Error() }

func (v *verdict) Unwrap() error { return v.err }

// RetryAfter returns err, but the job is retried after that delay instead of Backoff's.
func RetryAfter(err error, delay time.Duration) error {
	if err == nil {
		err = errors.New("retry")
	}
	return &verdict{err: err, kind: retryAfter, delay: delay}
}

// Snooze makes the job be delivered again after that delay without counting the attempt, for a job whose time
// has not come although nothing failed.
func Snooze(delay time.Duration) error {
	return &verdict{err: fmt.Errorf("snoozed for %v", duration.Format(delay)), kind: snooze, delay: delay}
}

// BackOff stops delivery of the topic to all consumers for that time, and delivers this job again after it
// without counting the attempt. Use it when another service asks to slow down, for example with HTTP 429. It
// never shortens a longer pause of the topic. See client.BackOff.
func BackOff(topic string, d time.Duration) error {
	return &verdict{err: fmt.Errorf("backed off from %s for %v", topic, duration.Format(d)), kind: snooze, delay: d, topic: topic}
}

// Bury returns err, but the job becomes a dead letter at once: retrying cannot help.
func Bury(err error) error {
	if err == nil {
		err = errors.New("buried")
	}
	return &verdict{err: err, kind: bury}
}

// PanicError is a panic of a handler as an error. Its text has the stack.
type PanicError struct {
	Value any
	Stack []byte
}

func (p *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", p.Value, p.Stack) }
