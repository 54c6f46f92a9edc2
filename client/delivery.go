package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/wait"
)

// Delivery is a reserved job. It belongs to the caller until its lease ends, and is then delivered again. Ack,
// Retry, Release and Bury settle it before that; call one of them, once.
//
// They and Extend return ErrLeaseLost and change nothing if the lease has ended, or if anybody has removed,
// rescheduled or pushed the job again. After a network error it is unknown whether the call was done, and it may
// be repeated. A repeated Ack succeeds if the first one was done; the others return ErrLeaseLost in that case, as
// does an Ack after one that returned nil.
//
// A ctx with a deadline ends a call at the deadline, even if Redis is silent. One that can only be cancelled ends
// the call while it waits for its turn; a call that was sent waits for its reply, within the connection's
// timeouts. A Delivery is safe for concurrent use.
type Delivery struct {
	Message
	// Attempt counts the deliveries to consumers that reserve; the first is 1.
	Attempt int
	// MaxAttempts is the most deliveries, as set by the producer or else the consumer; 0 means no limit.
	MaxAttempts int
	// Token is a fencing token: it grows with each reservation of a job. A storage can reject writes whose token
	// is smaller than one that it has seen, because they come from a consumer that has lost its lease without
	// knowing.
	Token int64
	// LateBy is how long the job had been ready when it was reserved; -1 if unknown. It is known for first
	// attempts. For jobs pushed by clients of the original with a readyMaxLifetime other than 7 days it is wrong
	// by the difference.
	LateBy time.Duration

	client *Client
	limit  int // the consumer's own

	mu       sync.Mutex
	began    int64 // of the lease, or its extension, by Redis's clock, in µs
	deadline time.Time
	lease    time.Duration
	settling bool // a call that ends it is under way, or was done
	unknown  bool // an Ack may have been done
}

// limitOf returns a consumer's maximum of attempts as the store has it, where 0 is any number.
func limitOf(attempts int) int { return max(cmp.Or(attempts, store.DefaultMaxAttempts), 0) }

// deliveries makes Deliveries of jobs. Popped ones are settled.
func (c *Client) deliveries(got wait.Jobs, o FetchOptions) []*Delivery {
	list := make([]*Delivery, len(got.Jobs))
	for i, job := range got.Jobs {
		if o.Pop {
			list[i] = &Delivery{Message: Message(job), LateBy: -1, client: c, settling: true}
			continue
		}
		l, limit := got.Leases[i], limitOf(o.attempts(job.Topic))
		d := &Delivery{Message: Message(job), Attempt: l.Attempt, MaxAttempts: l.MaxAttempts, Token: l.Token, LateBy: l.Late, client: c, limit: limit}
		if d.MaxAttempts == 0 {
			d.MaxAttempts = limit
		}
		d.began = l.End - l.Length.Microseconds()
		d.lease, d.deadline = l.Length, got.AskedAt.Add(l.Length)
		list[i] = d
	}
	return list
}

// Delivery returns the Delivery of a job that was reserved elsewhere, for example by another program, under that
// token. Settling and Extend work, and return ErrLeaseLost if the topic, the ID or the token is wrong. Everything
// else is unknown: body and attempts are empty, and so are Deadline and Lease until it is extended. It does not
// call Redis.
func (c *Client) Delivery(topic, id string, token int64) *Delivery {
	return &Delivery{Message: Message{ID: id, Topic: topic}, Token: token, LateBy: -1, client: c}
}

// Deadline returns when the lease ends, by this host's clock; zero if unknown. It is never later than the end by
// Redis's clock, as long as both clocks run at the same speed.
func (d *Delivery) Deadline() time.Time {
	if d == nil {
		return time.Time{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.deadline
}

// Lease returns the duration of the lease as it was last taken or extended; 0 if unknown.
func (d *Delivery) Lease() time.Duration {
	if d == nil {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lease
}

// Ack completes the job, which is then gone from Redis.
func (d *Delivery) Ack(ctx context.Context) error {
	return d.settle(ctx, "ack", nil, func(ctx context.Context, c *calls) error {
		return d.acked(c.acks.Do(ctx, d.partition(), d.held()))
	})
}

// Retry delivers the job again after the delay, which is as in Push, to any consumer. This attempt counts: if it was the last, the job
// becomes a dead letter, and the error is ErrExhausted. The text of cause, up to 8 KiB, is stored with the job: Get
// shows it, and the dead letter if the job becomes one. If cause is nil, that of an earlier attempt stays.
func (d *Delivery) Retry(ctx context.Context, delay time.Duration, cause error) error {
	return d.retry(ctx, "retry", store.Returned{Delay: delay, Error: textOf(cause)})
}

// Release delivers the job again after the delay, to any consumer. This attempt does not count. Without a delay the
// job is the next one of its topic: for consumers that stop.
func (d *Delivery) Release(ctx context.Context, delay time.Duration) error {
	return d.retry(ctx, "release", store.Returned{Delay: delay, Refund: true})
}

func (d *Delivery) retry(ctx context.Context, operation string, job store.Returned) error {
	return d.settle(ctx, operation, checkDelay(job.Delay), func(ctx context.Context, c *calls) error {
		job.LeaseRef, job.MaxAttempts, job.Delay = d.held(), d.limit, max(job.Delay, 0)
		return c.retries.Do(ctx, d.partition(), job)
	})
}

// Bury makes the job a dead letter, whose Reason and Error are the text of cause, up to 8 KiB. It is not delivered
// until it is requeued. If cause is nil, the Reason is "buried", and the Error of an earlier attempt stays.
func (d *Delivery) Bury(ctx context.Context, cause error) error {
	text := textOf(cause)
	return d.settle(ctx, "bury", nil, func(ctx context.Context, c *calls) error {
		return c.burials.Do(ctx, d.partition(), store.Burial{LeaseRef: d.held(), Reason: cmp.Or(text, "buried"), Error: text})
	})
}

// Extend makes the lease end that long from now: at least 1 ms, at most 24 h. After a network error the lease may
// have either end, and Deadline returns the earlier one.
func (d *Delivery) Extend(ctx context.Context, lease time.Duration) (err error) {
	if err := d.check(); err != nil {
		return failed("extend", "", err)
	}
	if d.client.hooks.settle != nil {
		var done func([]Result, error)
		ctx, done = d.client.settling(ctx, "extend", d)
		defer func() { done(nil, err) }()
	}
	return d.client.call(ctx, "extend", d.ID, checkExtension(lease), func() error {
		e, asked := d.extension(lease), time.Now()
		return d.extended(e, asked, d.client.calls.extensions.Do(ctx, d.partition(), e))
	})
}

func (d *Delivery) extension(lease time.Duration) *store.Extension {
	return &store.Extension{LeaseRef: d.held(), Lease: lease}
}

func checkExtension(lease time.Duration) error { return checkLength("lease", lease, store.MaxLease) }

func (d *Delivery) check() error {
	if d == nil || d.client == nil {
		return invalid("delivery", "it is none that a Client has given")
	}
	return nil
}

// extended takes in the result of an Extend and returns its error. After an error the lease may have either end,
// so the deadline is the earlier one.
func (d *Delivery) extended(e *store.Extension, asked time.Time, err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	deadline := asked.Add(e.Lease)
	if err != nil { // the call may go on, and is about to enter the end
		if deadline.Before(d.deadline) {
			d.deadline = deadline
		}
		return err
	}
	if began := e.End - e.Lease.Microseconds(); began >= d.began { // else another Extend was done later
		d.began, d.lease, d.deadline = began, e.Lease, deadline
	}
	return nil
}

// partition returns the one to which the job belongs. The only one needs no look at the ID.
func (d *Delivery) partition() *store.Store {
	if all := d.client.fleet.Stores; len(all) == 1 {
		return all[0]
	}
	return d.client.fleet.Of(d.ID)
}

func (d *Delivery) held() store.LeaseRef {
	return store.LeaseRef{Topic: d.Topic, ID: d.ID, Token: d.Token}
}

// settle settles the Delivery by the call, unless the arguments are wrong.
func (d *Delivery) settle(ctx context.Context, operation string, wrong error, call func(context.Context, *calls) error) (err error) {
	if err := d.check(); err != nil {
		return failed(operation, "", err)
	}
	if d.client.hooks.settle != nil {
		var done func([]Result, error)
		ctx, done = d.client.settling(ctx, operation, d)
		defer func() { done(nil, err) }()
	}
	return d.client.call(ctx, operation, d.ID, wrong, func() error {
		if !d.beginToSettle() {
			return ErrLeaseLost
		}
		return d.settled(call(ctx, &d.client.calls))
	})
}

// beginToSettle reports whether the Delivery is neither settled nor being settled.
func (d *Delivery) beginToSettle() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.settling {
		return false
	}
	d.settling = true
	return true
}

// settled takes in the result of a settling call and returns its error. If the job is, or may be, still reserved,
// settling can be tried again.
func (d *Delivery) settled(err error) error {
	if err != nil && !errors.Is(err, ErrLeaseLost) && !errors.Is(err, ErrExhausted) {
		d.mu.Lock()
		d.settling = false
		d.mu.Unlock()
	}
	return err
}

// acked returns an Ack's error, but nil if the job is gone and an earlier Ack whose reply was lost may have
// completed it.
func (d *Delivery) acked(err error) error {
	if err == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unknown && errors.Is(err, store.ErrGone) {
		return nil
	}
	d.unknown = d.unknown || store.KindOf(err) == store.NoAnswer
	return err
}

const maxText = 8 << 10

// textOf returns an error's text as it is stored; nil has none.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	if len(text) <= maxText {
		return text
	}
	const mark = " …"
	return strings.ToValidUTF8(text[:maxText-len(mark)], "") + mark
}

// AckBatch is Ack for many deliveries. They go to Redis 250 at a time, each part in one atomic step. The results
// are in the order of the deliveries; the error is nil if all succeeded.
func (c *Client) AckBatch(ctx context.Context, deliveries []*Delivery) ([]Result, error) {
	return c.settleBatch(ctx, "ack batch", deliveries, checkAll(deliveries), func(ctx context.Context) []error {
		errs := slices.Repeat([]error{ErrLeaseLost}, len(deliveries))
		places, begun := pick(deliveries, (*Delivery).beginToSettle)
		for i, err := range fleet.DoAll(ctx, ackKind, each(begun, (*Delivery).held), func(i int) *store.Store { return c.fleet.Of(begun[i].ID) }) {
			errs[places[i]] = begun[i].settled(begun[i].acked(err))
		}
		return errs
	})
}

// ExtendBatch is Extend for many deliveries. A lease of 0 extends each by its last lease, which must be known.
func (c *Client) ExtendBatch(ctx context.Context, deliveries []*Delivery, lease time.Duration) ([]Result, error) {
	wrong := checkAll(deliveries)
	if lease != 0 {
		wrong = cmp.Or(checkExtension(lease), wrong)
	}
	for i, d := range deliveries {
		if wrong == nil && lease == 0 && d.Lease() == 0 {
			wrong = fmt.Errorf("delivery %d: %w", i, invalid("lease", "0 means the last lease, which is not known"))
		}
	}
	return c.settleBatch(ctx, "extend batch", deliveries, wrong, func(ctx context.Context) []error {
		asked := time.Now()
		extensions := each(deliveries, func(d *Delivery) *store.Extension { return d.extension(cmp.Or(lease, d.Lease())) })
		errs := fleet.DoAll(ctx, extendKind, extensions, func(i int) *store.Store { return c.fleet.Of(deliveries[i].ID) })
		for i, d := range deliveries {
			errs[i] = d.extended(extensions[i], asked, errs[i])
		}
		return errs
	})
}

// settleBatch settles the deliveries with do, which returns an error for each, unless an argument is wrong.
func (c *Client) settleBatch(ctx context.Context, name string, deliveries []*Delivery, wrong error, do func(context.Context) []error) (results []Result, err error) {
	if c != nil && c.hooks.settle != nil {
		var done func([]Result, error)
		ctx, done = c.settling(ctx, name, deliveries...)
		defer func() { done(results, err) }()
	}
	err = c.call(ctx, name, "", wrong, func() error {
		results = make([]Result, len(deliveries))
		for i, err := range do(ctx) {
			results[i] = Result{ID: deliveries[i].ID, Err: err}
		}
		return batchError("jobs", results)
	})
	return results, err
}

func checkAll(deliveries []*Delivery) error {
	for i, d := range deliveries {
		if err := d.check(); err != nil {
			return fmt.Errorf("delivery %d: %w", i, err)
		}
	}
	return nil
}

// pick returns the items to keep, and their places.
func pick[T any](items []T, keep func(T) bool) (places []int, kept []T) {
	for i, item := range items {
		if keep(item) {
			places, kept = append(places, i), append(kept, item)
		}
	}
	return places, kept
}

func each[T, U any](items []T, f func(T) U) []U {
	list := make([]U, len(items))
	for i, item := range items {
		list[i] = f(item)
	}
	return list
}
