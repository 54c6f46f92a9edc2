package worker

import (
	"context"
	"errors"
	"time"

	"github.com/mix-basic/delayer/client"
)

// renewalOf is when the delivery's lease is to be extended: when a third of it is over.
func renewalOf(d *client.Delivery) time.Time {
	return d.Deadline().Add(-d.Lease() * 2 / 3)
}

const (
	// together is how much earlier than need be a lease is extended, as a part of its
	// length, so that those of about the same age are extended by one call.
	together = 10
	// idleRenewer is for how long there may be nothing to do.
	idleRenewer = time.Hour
)

// renew extends the leases of the tasks, until ctx is done.
func (r *run) renew(ctx context.Context) {
	timer := time.NewTimer(idleRenewer)
	defer timer.Stop()
	for {
		timer.Reset(r.nextRenewal())
		select {
		case <-ctx.Done():
			return
		case <-r.renewed:
			continue
		case <-timer.C:
		}
		r.extend(ctx)
	}
}

// nextRenewal is after how long the next lease is to be extended.
func (r *run) nextRenewal() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := idleRenewer
	for t := range r.tasks {
		if !t.lost {
			next = min(next, time.Until(t.renewAt))
		}
	}
	next = max(next, time.Millisecond)
	r.renewAt = time.Now().Add(next)
	return next
}

// extend extends the leases that are to be extended about now, by one call. That does not take longer
// than until the first lease ends: its handler's context ends then, whether Redis answers or not.
func (r *run) extend(ctx context.Context) {
	tasks, firstEnd := r.oldLeases()
	if len(tasks) == 0 {
		return
	}
	ctx, cancel := context.WithDeadline(ctx, firstEnd)
	defer cancel()
	deliveries := make([]*client.Delivery, len(tasks))
	for i, t := range tasks {
		deliveries[i] = t.delivery
	}
	results, err := r.client.ExtendBatch(ctx, deliveries, 0)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, t := range tasks {
		if results != nil {
			err = results[i].Err
		}
		t.extended(err)
	}
}

// extended enters what came of the extension of the lease. run.mu must be held.
func (t *task) extended(err error) {
	left, lease := time.Until(t.delivery.Deadline()), t.delivery.Lease()
	switch {
	case err == nil:
		t.renewAt = renewalOf(t.delivery)
	case errors.Is(err, client.ErrLeaseLost) || left <= 0:
		t.lost = true
		t.cancel(client.ErrLeaseLost)
	default: // try again, and see at the deadline at the latest
		t.renewAt = time.Now().Add(min(left, max(lease/together, 10*time.Millisecond)))
	}
}

// oldLeases are the tasks whose leases are to be extended about now, and when the first of all
// leases ends.
func (r *run) oldLeases() (tasks []*task, firstEnd time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	firstEnd = now.Add(idleRenewer)
	for t := range r.tasks {
		if t.lost {
			continue
		}
		if t.renewAt.Sub(now) <= t.delivery.Lease()/together {
			tasks = append(tasks, t)
		}
		if end := t.delivery.Deadline(); end.Before(firstEnd) {
			firstEnd = end
		}
	}
	return tasks, firstEnd
}
