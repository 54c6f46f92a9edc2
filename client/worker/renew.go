package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/duration"
)

// renewalOf returns when to extend the delivery's lease: after a third of it.
func renewalOf(d *client.Delivery) time.Time {
	return d.Deadline().Add(-d.Lease() * 2 / 3)
}

const (
	// together is the part of its length by which a lease may be extended early, so that leases of about the
	// same age share a call.
	together = 10
	// maxExtending is how many extending calls may be in flight. There is more than one only if Redis or a
	// connection is slow.
	maxExtending = 3
	// idleRenewer is how long the renewer sleeps without tasks.
	idleRenewer = time.Hour
)

// renew extends the leases of the tasks until ctx is done. When a lease reaches its end it is lost and its
// handler's context ends, whether or not Redis replies. Handlers that do not return then are given up.
func (r *run) renew(ctx context.Context) {
	var calls sync.WaitGroup
	defer calls.Wait()
	for {
		tasks, next := r.attend()
		if len(tasks) > 0 {
			calls.Go(func() { r.extend(ctx, tasks) })
		}
		select {
		case <-ctx.Done():
			return
		case <-r.sooner:
		case <-time.After(next):
		}
	}
}

// attendAt makes sure that attend is called at that time. The caller holds mu.
func (r *run) attendAt(at time.Time) {
	if at.Before(r.attendsAt) {
		signal(r.sooner)
	}
}

// attend gives up leases that have ended and handlers that do not return, releases jobs that have been buffered for too long, logs
// those that run longer than their leases, and returns the tasks to extend in one call now. next is when something is due again.
func (r *run) attend() (old []*task, next time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.attendsAt = now.Add(idleRenewer)
	isDue := func(at time.Time) bool {
		if at.After(now) && at.Before(r.attendsAt) {
			r.attendsAt = at
		}
		return !at.After(now)
	}
	for len(r.buffered) > 0 && isDue(r.buffered[0].bufferedUntil) {
		r.unbuffer().drop()
	}
	someDue := false
	for t := range r.tasks {
		if !t.settling && !t.giveUpAt.IsZero() && isDue(t.giveUpAt) {
			t.giveUp()
		}
		if t.runs && !t.settling && !t.lost && isDue(t.longAt) {
			t.longAt = now.Add(t.lease)
			isDue(t.longAt)
			r.underWay.Go(func() {
				t.log().Warn("job runs longer than its lease, which is extended: let its producer give it a longer one",
					"lease", duration.Format(t.lease), "running", duration.Format(now.Sub(t.began).Round(time.Millisecond)))
			})
		}
		switch {
		case t.lost:
		case isDue(t.delivery.Deadline()):
			t.lose()
		case !t.extending && r.extending < maxExtending:
			someDue = isDue(t.renewAt) || someDue
			if t.renewAt.Sub(now) <= t.delivery.Lease()/together {
				old = append(old, t)
			}
		}
	}
	if !someDue {
		return nil, r.attendsAt.Sub(now)
	}
	r.extending++
	for _, t := range old {
		t.extending = true
	}
	return old, r.attendsAt.Sub(now)
}

// extend extends the leases in one call, which may take until the last of them ends. Leases that end earlier
// are given up by renew meanwhile.
func (r *run) extend(ctx context.Context, tasks []*task) {
	var lastEnd time.Time
	deliveries := make([]*client.Delivery, len(tasks))
	for i, t := range tasks {
		deliveries[i] = t.delivery
		if end := t.delivery.Deadline(); end.After(lastEnd) {
			lastEnd = end
		}
	}
	ctx, cancel := context.WithDeadline(ctx, lastEnd)
	defer cancel()
	results, err := r.client.ExtendBatch(ctx, deliveries, 0)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.extending--
	for i, t := range tasks {
		if results != nil {
			err = results[i].Err
		}
		t.extending = false
		t.extended(err)
	}
	signal(r.sooner)
}

// extended records the result of extending the lease. The caller holds run.mu.
func (t *task) extended(err error) {
	left, lease := time.Until(t.delivery.Deadline()), t.delivery.Lease()
	switch {
	case err == nil:
		t.renewAt = renewalOf(t.delivery)
	case errors.Is(err, client.ErrLeaseLost) || left <= 0:
		t.lose()
	default: // retried; at its end the lease is lost
		t.renewAt = time.Now().Add(min(left, max(lease/together, 10*time.Millisecond)))
	}
}

// lose ends the handler's context because the lease is lost. The caller holds run.mu.
func (t *task) lose() {
	t.lost = true
	t.cancel(client.ErrLeaseLost)
	if t.runs {
		t.endsIn(0)
	}
}
