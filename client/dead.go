package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
)

// DeadLetter is a job whose attempts are used up, or that was buried.
type DeadLetter struct {
	Message
	Attempts int
	Reason   string    // why it is one
	Error    string    // of the last attempt, if one is known
	Died     time.Time // when it became one, by Redis's clock
	// MaxAttempts and TTR are the producer's; 0 if not set.
	MaxAttempts int
	TTR         time.Duration
}

const deadPage = 100

// Dead iterates over the topic's dead letters, the newest first. It reads a few at a time; letters that come or go
// meanwhile may or may not be included. It stops at an error.
func (c *Client) Dead(ctx context.Context, topic string) iter.Seq2[DeadLetter, error] {
	return func(yield func(DeadLetter, error) bool) {
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
				yield(DeadLetter{}, err)
			}
			if len(letters) == 0 {
				return
			}
			for _, l := range letters {
				if !yield(DeadLetter{Message{l.ID, l.Topic, l.Body, l.Headers}, l.Attempts, l.Reason, l.Error, l.At, l.MaxAttempts, l.TTR}, nil) {
					return
				}
			}
		}
	}
}

// Requeue makes a dead letter ready again, with all its attempts and the default ReadyMaxLifetime. It returns
// ErrNotFound if there is no such dead letter, and ErrExists if there is a job with its ID.
func (c *Client) Requeue(ctx context.Context, id string) error {
	return c.call(ctx, "requeue", id, checkID(id), func() error {
		errs, err := c.fleet.Of(id).Requeue(ctx, []string{id}, DefaultExpireAfter)
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

// DropDead deletes the topic's dead letters with these IDs, and returns how many there were.
func (c *Client) DropDead(ctx context.Context, topic string, ids ...string) (dropped int, err error) {
	err = c.call(ctx, "drop dead", topic, checkTopic(topic), func() error {
		for _, theirs := range fleet.Divide(ids, func(i int) *store.Store { return c.fleet.Of(ids[i]) }) {
			for page := range slices.Chunk(theirs.Items, deadPage) {
				n, err := theirs.Store.DropDead(ctx, topic, page, time.Time{})
				if dropped += n; err != nil {
					return err
				}
			}
		}
		return nil
	})
	return dropped, err
}

// DropAllDead deletes all dead letters of the topic, a few at a time, and returns how many there were.
func (c *Client) DropAllDead(ctx context.Context, topic string) (dropped int, err error) {
	err = c.call(ctx, "drop all dead", topic, checkTopic(topic), func() error {
		dropped, err = c.fleet.DropDead(ctx, fleet.DeadRange{Topic: topic, Oldest: true, Stale: true})
		return err
	})
	return dropped, err
}
