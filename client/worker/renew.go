package worker

import (
	"context"
	"errors"
	"sync"
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
	// maxExtending is how many calls that extend leases are under way at a time: more than one
	// only where Redis, or a connection, is slow to answer.
	maxExtending = 3
	// idleRenewer is for how long there may be nothing to do.
	idleRenewer = time.Hour
)

// renew extends the leases of the tasks, until ctx is done. A lease whose end has come is lost,
// and its handler's context ends, whether Redis answers or not.
func (r *run) renew(ctx context.Context) {
	timer := time.NewTimer(idleRenewer)
	defer timer.Stop()
	var calls sync.WaitGroup
	defer calls.Wait()
	for {
		timer.Reset(r.nextRenewal())
		select {
		case <-ctx.Done():
			return
		case <-r.renewed:
			continue
		case <-timer.C:
		}
		if tasks := r.oldLeases(); len(tasks) > 0 {
			calls.Go(func() { r.extend(ctx, tasks) })
		}
	}
}

// nextRenewal is after how long the next lease is to be extended, or ends.
func (r *run) nextRenewal() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := idleRenewer
	for t := range r.tasks {
		switch {
		case t.lost:
		case t.extending || r.extending == maxExtending:
			next = min(next, time.Until(t.delivery.Deadline()))
		default:
			next = min(next, time.Until(t.renewAt))
		}
	}
	next = max(next, time.Millisecond)
	r.renewAt = time.Now().Add(next)
	return next
}

// oldLeases are the tasks whose leases are to be extended about now, by one call. Leases that have
// ended are lost.
func (r *run) oldLeases() (tasks []*task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for t := range r.tasks {
		switch {
		case t.lost:
		case !t.delivery.Deadline().After(now):
			t.lose()
		case !t.extending && r.extending < maxExtending && t.renewAt.Sub(now) <= t.delivery.Lease()/together:
			tasks, t.extending = append(tasks, t), true
		}
	}
	if len(tasks) > 0 {
		r.extending++
	}
	return tasks
}

// extend extends the leases by one call, which may take until the last of them ends: those that end
// before are lost meanwhile, and harm no other.
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
	signal(r.renewed)
}

// extended enters what came of the extension of the lease. run.mu must be held.
func (t *task) extended(err error) {
	left, lease := time.Until(t.delivery.Deadline()), t.delivery.Lease()
	switch {
	case err == nil:
		t.renewAt = renewalOf(t.delivery)
	case errors.Is(err, client.ErrLeaseLost) || left <= 0:
		t.lose()
	default: // try again, and see at the deadline at the latest
		t.renewAt = time.Now().Add(min(left, max(lease/together, 10*time.Millisecond)))
	}
}

// lose ends the handler's context, since its lease is lost. run.mu must be held.
func (t *task) lose() {
	t.lost = true
	t.cancel(client.ErrLeaseLost)
}
