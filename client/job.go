package client

import (
	"context"
	"time"
)

// State is where a job is.
type State string

// The states of a job that exists.
const (
	Waiting State = "waiting" // for its due time
	Ready   State = "ready"   // for a consumer
)

// Job is what Get tells of a job.
type Job struct {
	Message
	State State
	// Due is when a waiting job falls due, by Redis's clock; zero when it is
	// ready.
	Due time.Time
	// TTL is the time left until Redis drops the job; -1 if it never will.
	TTL time.Duration
}

// Get reads a job without changing it. It fails with ErrNotFound if there is none.
//
// A job that an old client has popped and not yet read shows as ready.
func (c *Client) Get(ctx context.Context, id string) (Job, error) {
	if err := c.beginOn(ctx, id); err != nil {
		return Job{}, failed("get", id, err)
	}
	defer c.running.Done()
	found, err := c.of(id).store.Get(ctx, id)
	if err != nil {
		return Job{}, failed("get", id, err)
	}
	job := Job{Message: Message(found.Job), State: Ready, Due: found.Due, TTL: found.TTL}
	if found.Waiting {
		job.State = Waiting
	}
	return job, nil
}

// Remove takes a job out, waiting or ready. True means that there was one and
// nobody will get it from now on; false that there is none (any more). Only an
// old client, which pops in three commands, may have read it just before.
func (c *Client) Remove(ctx context.Context, id string) (bool, error) {
	if err := c.beginOn(ctx, id); err != nil {
		return false, failed("remove", id, err)
	}
	defer c.running.Done()
	removed, err := c.of(id).store.Remove(ctx, id)
	return removed, failed("remove", id, err)
}

// Reschedule gives a waiting or ready job a new delay from now, as in Push. How
// long it is kept once it is ready stays as it was. It fails with ErrNotFound if there is
// no such job.
func (c *Client) Reschedule(ctx context.Context, id string, delay time.Duration) error {
	if err := checkDelay("delay", delay); err != nil {
		return failed("reschedule", id, err)
	}
	if err := c.beginOn(ctx, id); err != nil {
		return failed("reschedule", id, err)
	}
	defer c.running.Done()
	return failed("reschedule", id, c.of(id).store.Reschedule(ctx, id, delay))
}

// beginOn is begin for a call on the job of that ID.
func (c *Client) beginOn(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	return c.begin(ctx)
}
