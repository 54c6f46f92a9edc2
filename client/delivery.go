package client

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/wait"
)

// Delivery is a reserved job. It is the caller's until its lease ends, and is delivered again
// then. Ack, Retry, Release, Snooze and Bury end it before: one of them is to be called, once.
//
// All of these, and Extend, fail with ErrLeaseLost and change nothing if the lease has
// ended, or the job was removed, rescheduled or pushed anew meanwhile, by whomever. After an
// error of the network it is unknown whether the call was done, and it may be repeated. An Ack repeated
// after a lost answer succeeds if the first one was done; the others fail with ErrLeaseLost then, as does
// an Ack after one that returned nil.
//
// A ctx with a deadline ends a call then, be Redis silent. One that can only be cancelled ends
// it as long as the call waits for its turn; a call that is under way gets its answer,
// as long as the connection's timeouts allow. A Delivery is safe for concurrent use.
type Delivery struct {
	Message
	// Attempt counts the deliveries to those who reserve; the first is 1.
	Attempt int
	// MaxAttempts is how many there may be, by the producer or else the consumer; 0 is any number.
	MaxAttempts int
	// Token grows from reserve to reserve of a job: a fencing token. A storage can refuse writes
	// whose token is smaller than one it has seen: they are from a consumer that has lost its
	// lease and doesn't know it.
	Token int64
	// LateBy is for how long the job had been ready when it was reserved; -1 if that is not known.
	// It is known of first attempts. For jobs that clients of the original have pushed with
	// another readyMaxLifetime than 7 days it is wrong by the difference.
	LateBy time.Duration

	client *Client
	at     *store.Store // where it is held; nil if that is not known
	limit  int          // the consumer's own

	mu       sync.Mutex
	began    int64 // of the lease, or its extension, by Redis's clock, in µs
	deadline time.Time
	lease    time.Duration
	settling bool // a call that ends it is under way, or was done
	unknown  bool // an Ack may have been done
}

// deliveries are the reserved jobs.
func (c *Client) deliveries(got wait.Jobs, o FetchOptions) []*Delivery {
	list := make([]*Delivery, len(got.Jobs))
	for i, job := range got.Jobs {
		l, limit := got.Leases[i], o.attempts(job.Topic)
		d := &Delivery{Message: Message(job), Attempt: l.Attempt, MaxAttempts: l.MaxAttempts, Token: l.Token, LateBy: l.Late, client: c, at: l.Store, limit: limit}
		if d.MaxAttempts == 0 {
			d.MaxAttempts = limit
		}
		d.began = l.End - l.Length.Microseconds()
		d.lease, d.deadline = l.Length, got.AskedAt.Add(l.Length)
		list[i] = d
	}
	return list
}

// Delivery is the Delivery of a job that was reserved elsewhere, by another program for instance,
// under that token. All that settles it works, as does Extend, and fails with ErrLeaseLost if the
// topic, the ID or the token is another. What else there is to know of it is not known: body and
// attempts are empty, and so are Deadline and Lease until it is extended. Redis is not asked.
func (c *Client) Delivery(topic, id string, token int64) *Delivery {
	return &Delivery{Message: Message{ID: id, Topic: topic}, Token: token, LateBy: -1, client: c}
}

// Deadline is when the lease ends, by this host's clock; zero if that is not known. It is never
// later than the end by Redis's clock, as far as both run equally fast.
func (d *Delivery) Deadline() time.Time {
	if d == nil {
		return time.Time{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.deadline
}

// Lease is how long the lease was to last when it was taken or extended last; 0 if that is not
// known.
func (d *Delivery) Lease() time.Duration {
	if d == nil {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lease
}

// Ack says that the job is done. It is gone from Redis then.
func (d *Delivery) Ack(ctx context.Context) error {
	return d.settle(ctx, "ack", nil, func(c *calls) error {
		return d.acked(d.settleAt(func(s *store.Store) error { return c.acks.Do(ctx, s, d.held()) }))
	})
}

// RetryOption changes one Retry.
type RetryOption func(*retryOptions)

type retryOptions struct{ cause string }

// Cause keeps the error with the job, as text, of 8 KiB at most: Get shows it, and the dead
// letter if it comes to that.
func Cause(err error) RetryOption {
	return func(o *retryOptions) {
		if err != nil {
			o.cause = cutText(err.Error())
		}
	}
}

// Retry has the job delivered again after the delay, to whomever. This attempt counts: when
// it was the last, the job becomes a dead letter and the error is ErrExhausted.
func (d *Delivery) Retry(ctx context.Context, delay time.Duration, opts ...RetryOption) error {
	return d.giveBack(ctx, "retry", delay, false, opts)
}

// Release gives the job back at once, as the topic's next. This attempt does not count: it
// is for a consumer who is to stop.
func (d *Delivery) Release(ctx context.Context) error {
	return d.giveBack(ctx, "release", 0, true, nil)
}

// Snooze is Retry, but this attempt does not count.
func (d *Delivery) Snooze(ctx context.Context, delay time.Duration) error {
	return d.giveBack(ctx, "snooze", delay, true, nil)
}

func (d *Delivery) giveBack(ctx context.Context, operation string, delay time.Duration, refund bool, opts []RetryOption) error {
	o, err := newRetryOptions(opts)
	return d.settle(ctx, operation, cmp.Or(checkDelay("delay", delay), err), func(c *calls) error {
		d.client.note("delay", delay)
		job := store.GivenBack{Held: d.held(), Delay: delay, Refund: refund, MaxAttempts: d.limit, Error: o.cause}
		return d.settleAt(func(s *store.Store) error { return c.retries.Do(ctx, s, job) })
	})
}

// Bury makes a dead letter of the job, for that reason, of 8 KiB at most: it is kept aside,
// where Dead shows it, and delivered to nobody until it is requeued.
func (d *Delivery) Bury(ctx context.Context, reason string, opts ...RetryOption) error {
	o, err := newRetryOptions(opts)
	return d.settle(ctx, "bury", err, func(c *calls) error {
		job := store.Burial{Held: d.held(), Reason: cutText(reason), Error: o.cause}
		return d.settleAt(func(s *store.Store) error { return c.burials.Do(ctx, s, job) })
	})
}

func newRetryOptions(opts []RetryOption) (o retryOptions, err error) {
	for _, opt := range opts {
		if opt == nil {
			err = invalid("option", "it is nil")
		} else {
			opt(&o)
		}
	}
	return o, err
}

// Extend has the lease end so long from now: a millisecond at least, and 24 h at most. After an error of the
// network the lease may have either end, and Deadline is the earlier one.
func (d *Delivery) Extend(ctx context.Context, lease time.Duration) error {
	err := d.begin(ctx, checkExtension(lease))
	if err == nil {
		defer d.client.running.Done()
		e, asked := d.extension(lease), time.Now()
		err = d.extended(e, asked, d.settleAt(func(s *store.Store) error { return d.client.calls.extensions.Do(ctx, s, e) }))
	}
	return d.failed("extend", err)
}

func (d *Delivery) extension(lease time.Duration) *store.Extension {
	return &store.Extension{Held: d.held(), Lease: lease}
}

func checkExtension(lease time.Duration) error { return checkLength("lease", lease, MaxLease) }

// check refuses what is no delivery.
func (d *Delivery) check() error {
	if d == nil || d.client == nil {
		return invalid("delivery", "it is none that a Client has given")
	}
	return nil
}

// begin is Client.begin for a call on the delivery, whose arguments may be wrong.
func (d *Delivery) begin(ctx context.Context, wrong error) error {
	if err := cmp.Or(d.check(), wrong); err != nil {
		return err
	}
	return d.client.begin(ctx)
}

// extended enters what came of an Extend, whose error it returns. After an error the lease may have
// either end; the deadline is then that of the earlier.
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

func (d *Delivery) held() store.Held {
	return store.Held{Topic: d.Topic, ID: d.ID, Token: d.Token}
}

// settle ends the delivery by the call, unless the arguments are wrong.
func (d *Delivery) settle(ctx context.Context, operation string, wrong error, call func(*calls) error) error {
	err := d.begin(ctx, wrong)
	if err == nil {
		defer d.client.running.Done()
		if err = ErrLeaseLost; d.beginToSettle() {
			err = d.settled(call(&d.client.calls))
		}
	}
	if err == nil {
		return nil
	}
	return d.failed(operation, err)
}

// settleAt calls settle with the partition in which the job is held.
func (d *Delivery) settleAt(settle func(*store.Store) error) error {
	switch c := d.client; {
	case c.previous != nil:
		return c.previous.Settle(d.ID, d.at, settle)
	case len(c.fleet.Stores) > 1:
		return settle(c.fleet.Held(d.ID, d.at))
	default:
		return settle(c.fleet.Stores[0])
	}
}

// failed puts in front of an error what was called, and for which job.
func (d *Delivery) failed(operation string, err error) error {
	if d == nil {
		return failed(operation, "", err)
	}
	return failed(operation, d.ID, err)
}

// beginToSettle reports whether the delivery is not settled, nor about to be.
func (d *Delivery) beginToSettle() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.settling {
		return false
	}
	d.settling = true
	return true
}

// settled enters what came of a call that settles, whose error it returns: after one that leaves
// the job reserved, or may have, it may be tried again.
func (d *Delivery) settled(err error) error {
	if err != nil && !errors.Is(err, ErrLeaseLost) && !errors.Is(err, ErrExhausted) {
		d.mu.Lock()
		d.settling = false
		d.mu.Unlock()
	}
	return err
}

// acked returns an Ack's error, but nil if the job is gone and an earlier Ack, whose answer was
// lost, can have done that.
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

// maxText is how long an error or a reason is that is kept with a job, in bytes.
const maxText = 8 << 10

// cutText is what is kept of a text.
func cutText(text string) string {
	if len(text) <= maxText {
		return text
	}
	const mark = " …"
	return strings.ToValidUTF8(text[:maxText-len(mark)], "") + mark
}
