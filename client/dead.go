package client

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
)

// Dead iterates over the topic's dead letters, jobs whose attempts are used up or that were buried, the newest first. It
// reads a few at a time; letters added or removed during the iteration may or may not be included. It stops at an error.
func (c *Client) Dead(ctx context.Context, topic string) iter.Seq2[JobInfo, error] {
	return func(yield func(JobInfo, error) bool) {
		var reader *fleet.DeadReader
		for {
			var letters []fleet.Found
			err := c.call(ctx, "dead", topic, checkTopic(topic), func() (err error) {
				if reader == nil {
					reader = c.fleet.ReadDead(fleet.DeadRange{Topic: topic, Whole: true})
				}
				letters, err = reader.Next(ctx)
				return err
			})
			if err != nil {
				yield(JobInfo{}, err)
			}
			if len(letters) == 0 {
				return
			}
			for _, l := range letters {
				letter := JobInfo{
					Message: Message{l.ID, l.Topic, l.Body, l.Headers}, State: StateDead, Due: l.At, TTL: -1,
					Attempts: l.Attempts, Options: optionsOf(l.MaxAttempts, l.TTR, l.Body), Error: l.Error, Reason: l.Reason,
				}
				if !yield(letter, nil) {
					return
				}
			}
		}
	}
}

// Requeue makes a dead letter ready again, with all its attempts and the default ExpireAfter. It returns
// ErrNotFound if there is no such dead letter, and ErrExists if there is a job with its ID.
func (c *Client) Requeue(ctx context.Context, id string) error {
	return c.call(ctx, "requeue", id, checkID(id), func() error {
		errs, err := c.fleet.Of(id).Requeue(ctx, []string{id}, store.DefaultLifetime)
		if err == nil {
			err = errs[0]
		}
		return store.NoSuch("dead letter", err)
	})
}

// RequeueAll is Requeue for all dead letters of the topic, the oldest first, a few at a time. It returns how many
// became ready. Letters whose ID has a job stay; after all others are done they are the error (ErrExists), which
// names the first three.
func (c *Client) RequeueAll(ctx context.Context, topic string) (done int, err error) {
	err = c.call(ctx, "requeue all", topic, checkTopic(topic), func() error {
		const named = 3
		var kept []error
		letters := 0
		done, err = c.fleet.RequeueDead(ctx, fleet.DeadRange{Topic: topic, Stale: true}, func(id string, why error) {
			if letters++; letters <= named {
				kept = append(kept, fmt.Errorf("%s: %w", store.Quote(id), why))
			}
		})
		if letters > named {
			kept = append(kept, fmt.Errorf("%d letters stay in all", letters))
		}
		return errors.Join(append(kept, err)...)
	})
	return done, err
}

// DropAll deletes all dead letters of the topic, a few at a time, and returns how many there were. Other jobs stay.
// Remove deletes a single one.
func (c *Client) DropAll(ctx context.Context, topic string) (dropped int, err error) {
	err = c.call(ctx, "drop all", topic, checkTopic(topic), func() error {
		dropped, err = c.fleet.DropDead(ctx, fleet.DeadRange{Topic: topic, Oldest: true, Stale: true})
		return err
	})
	return dropped, err
}
