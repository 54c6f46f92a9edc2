package client

import (
	"cmp"
	"context"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// State is the state of a job.
type State string

// The states of a job.
const (
	StateWaiting  State = "waiting"  // for its due time, also for a retry
	StateReady    State = "ready"    // for a consumer
	StateReserved State = "reserved" // by a consumer
	StateDead     State = "dead"     // a dead letter
)

// JobInfo is what Get returns about a job.
type JobInfo struct {
	Message
	State State
	// Due is, by Redis's clock, when a waiting job falls due, when the lease of a reserved job ends, or when a
	// dead letter became one. It is zero for a ready job.
	Due time.Time
	// TTL is the time until Redis drops the job; -1 if it never does.
	TTL time.Duration
	// Attempts is how often it was delivered to consumers that reserve.
	Attempts int
	// Options are the producer's. ExpireAfter is not known.
	Options JobOptions
	// Error is the error of the last attempt, if known, and Reason why it is a dead letter.
	Error, Reason string
	// Followed reports whether a push with [Follow] will take its place when it is done.
	Followed bool
}

func optionsOf(attempts int, lease time.Duration, body string) JobOptions {
	return JobOptions{MaxAttempts: attempts, Lease: lease, EmptyBody: body == ""}
}

// Get reads a job without changing it, or else the dead letter with that ID. It returns ErrNotFound if there is
// neither.
//
// A job that an old client has popped but not read yet appears as ready.
func (c *Client) Get(ctx context.Context, id string) (job JobInfo, err error) {
	err = c.call(ctx, "get", id, checkID(id), func() error {
		found, err := c.fleet.Of(id).Get(ctx, id)
		if err == nil {
			job = JobInfo{Message(found.Job), State(found.State), found.Due, found.TTL, found.Attempts, optionsOf(found.MaxAttempts, found.TTR, found.Body), found.Error, found.Reason, found.Followed}
		}
		return err
	})
	return job, err
}

// Remove deletes a waiting, ready or reserved job, or else the dead letter with that ID, and returns the state in which it was. The state
// is empty, and the error nil, if there was none: it never existed, or is done. The job is not delivered again.
//
// StateReserved means that a handler may be running, or its consumer may have crashed. The consumer loses the lease: its Ack fails, and the
// job does not come back. But the handler is not stopped, and what it has done stays done. If both sides must not happen, let one of them
// win in the application's database: see docs/go.md. Only an old client, which pops in three commands, may have read a job just before that
// was waiting or ready.
//
// A dead letter is deleted for good, too. If there are both a job and a dead letter of the ID, the job is deleted, and the letter stays.
// ctx is as in Push.
func (c *Client) Remove(ctx context.Context, id string) (was State, err error) {
	return c.remove(ctx, &store.Removal{ID: id})
}

// RemoveUnlessReserved is Remove, but returns ErrReserved and changes nothing while the job is reserved.
func (c *Client) RemoveUnlessReserved(ctx context.Context, id string) (was State, err error) {
	return c.remove(ctx, &store.Removal{ID: id, UnlessReserved: true})
}

func (c *Client) remove(ctx context.Context, r *store.Removal) (was State, err error) {
	err = c.call(ctx, "remove", r.ID, checkID(r.ID), func() error {
		err := c.calls.removals.Do(ctx, c.fleet.Of(r.ID), r)
		if err == nil {
			was = State(r.Was)
		} else if err == store.ErrNotFound {
			err = nil
		}
		return err
	})
	return was, err
}

// Reschedule gives a waiting, ready or reserved job a new delay from now, as in Push. Its lifetime after it
// becomes ready stays the same, and a consumer that has reserved it loses the lease. It returns ErrNotFound if
// there is no such job; a dead letter does not count (see Requeue).
func (c *Client) Reschedule(ctx context.Context, id string, delay time.Duration) error {
	return c.call(ctx, "reschedule", id, cmp.Or(checkDelay(delay), checkID(id)), func() error {
		return c.fleet.Of(id).Reschedule(ctx, id, max(delay, 0))
	})
}
