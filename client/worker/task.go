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
	lease    time.Duration           // as it was reserved

	// Guarded by run.mu:
	renewAt       time.Time
	bufferedUntil time.Time // when it is released, unless it has a slot by then
	runs          bool      // its handler has been started
	began         time.Time // when it was started
	longAt        time.Time // when to log that it has run for another lease
	giveUpAt      time.Time // when to give the handler up, if its context has ended by then; zero if it has no timeout
	givenUp       bool
	slotFreed     bool // when it was given up
	extending     bool // a call extends the lease
	lost          bool // the lease is lost
	settling      bool // the job is being settled, by whoever has set this
}

type timeoutError time.Duration

func (t timeoutError) Error() string {
	return fmt.Sprintf("the timeout of %v has passed", duration.Format(time.Duration(t)))
}

func (t timeoutError) Unwrap() error { return context.DeadlineExceeded }

func newTask(r *run, s *served, d *client.Delivery) *task {
	t := &task{run: r, served: s, delivery: d, lease: d.Lease()}
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
		took := time.Since(began)
		switch {
		case t.handled(t):
			defer t.finish(t)
			t.settle(settleContext{t.reporting, ctx}, err, why, took)
		case t.givenUp:
			t.log().Info("handler has returned after it was given up; its result does not count", "after", duration.Format(took.Round(time.Millisecond)))
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

// releaseUnstarted releases a job that was not started. No hook is called, because to others it was ready all
// along.
func (t *task) releaseUnstarted() {
	defer t.finish(t)
	defer t.cancel(nil)
	t.report(t.reporting, release, t.returnAfter(0))
}

// leave releases the job although its handler still runs, because the worker stops.
func (t *task) leave() {
	defer t.finish(t)
	t.log().Error("handler does not return, though its context has ended")
	t.tell("Stuck", t.options.Hooks.Stuck)
	t.release(t.reporting, 0)
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
		t.release(ctx, 0)
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
	delay := min(max(v.delay, 0), store.MaxDelay)
	if store.LacksUnit(delay) { // a computed one
		delay = time.Millisecond
	}
	if v.kind == release {
		if v.throttles {
			if err := t.client.Throttle(t.reporting, t.job.Topic, delay); err != nil { // the job is released all the same
				t.log().Error("can't throttle the topic", "error", err)
			}
		}
		t.release(ctx, delay)
		return
	}
	t.hook("Failed", hooks.Failed != nil, func() { hooks.Failed(t.job, took, err) })
	dead := v.kind == bury
	ok := t.report(ctx, v.kind, func(ctx context.Context) error {
		if v.kind == bury {
			return t.delivery.Bury(ctx, err)
		}
		failed := t.delivery.Retry(ctx, delay, err)
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
	delay = DefaultBackoff(t.job, err)
	defer t.logPanic("Backoff")
	return t.served.options.Backoff(t.job, err)
}

func (t *task) release(ctx context.Context, delay time.Duration) {
	hook := t.options.Hooks.Released
	if t.settled(t.report(ctx, release, t.returnAfter(delay))) {
		t.hook("Released", hook != nil, func() { hook(t.job, delay) })
	}
}

func (t *task) returnAfter(delay time.Duration) func(context.Context) error {
	return func(ctx context.Context) error { return t.delivery.Release(ctx, delay) }
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
	err       error
	kind      string
	delay     time.Duration
	throttles bool // the topic, for that delay
}

// What happens to the job.
const (
	retryAfter = "retry"
	release    = "release"
	bury       = "bury"
)

// failureOf returns a handler's error, but nil for a job that it releases, because nothing has failed.
func failureOf(err error) error {
	var v *verdict
	if errors.As(err, &v) && v.kind == release {
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

// Release makes the job be delivered again after that delay without counting the attempt, for a job whose time
// has not come although nothing failed.
func Release(delay time.Duration) error {
	return &verdict{err: fmt.Errorf("released for %v", duration.Format(delay)), kind: release, delay: delay}
}

// Throttle stops delivery of the job's topic to all consumers for that time, and delivers the job again after it
// without counting the attempt. Use it when another service asks to slow down, for example with HTTP 429. It
// shortens neither a pause of the topic nor a longer Throttle. See Client.Throttle, which is for other topics.
func Throttle(d time.Duration) error {
	return &verdict{err: fmt.Errorf("throttled for %v", duration.Format(d)), kind: release, delay: d, throttles: true}
}

// Bury returns err, but the job becomes a dead letter at once: retrying cannot help.
func Bury(err error) error {
	if err == nil {
		err = errors.New("buried")
	}
	return &verdict{err: err, kind: bury}
}

// PanicError is a panic of a handler as an error. Error includes the stack.
type PanicError struct {
	Value any
	Stack []byte
}

func (p *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", p.Value, p.Stack) }
