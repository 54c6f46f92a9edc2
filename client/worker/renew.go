package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mix-basic/delayer/client"
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
		now := time.Now()
		for _, t := range r.claim(func(t *task) bool { return !t.giveUpAt.IsZero() && !now.Before(t.giveUpAt) }) {
			go t.giveUp()
		}
		if tasks := r.oldLeases(); len(tasks) > 0 {
			calls.Go(func() { r.extend(ctx, tasks) })
		}
	}
}

// nextRenewal returns when the next lease has to be extended, or ends, or a handler is to be given up.
func (r *run) nextRenewal() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := idleRenewer
	for t := range r.tasks {
		if !t.giveUpAt.IsZero() && !t.settling {
			next = min(next, time.Until(t.giveUpAt))
		}
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

// oldLeases returns the tasks to extend in one call now. It gives up leases that have ended.
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
	signal(r.renewed)
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
