package api

import (
	"context"
	"errors"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/view"
)

// maxCause is how many bytes of a reason or error are compared.
const maxCause = 1 << 10

// checkSelection makes sure that a missing filter never means all dead letters.
func checkSelection(s values) error {
	ways := 0
	for _, way := range []bool{s.has("ids"), s.has("reason", "error", "after", "before"), get[bool](s, "all")} {
		if way {
			ways++
		}
	}
	if ways != 1 {
		return invalid.problem("want one of ids, all: true, or any of reason, error, after and before")
	}
	return nil
}

func (a *api) requeue(c *call) (response, error) {
	return a.choose(c, a.requeueIDs, a.inspector.RequeueDead)
}

func (a *api) drop(c *call) (response, error) { return a.choose(c, a.dropIDs, a.inspector.DropDead) }

// choose applies byID or byFilter to the selected dead letters, or counts them.
func (a *api) choose(c *call, byID func(*bulk, string, []string) (int, error), byFilter func(context.Context, inspect.DeadFilter) (int, error)) (response, error) {
	dryRun, err := c.dryRun()
	if err == nil {
		err = checkSelection(c.body)
	}
	if err != nil {
		return response{}, err
	}
	if dryRun {
		byID, byFilter = a.requeueIDs, a.inspector.CountDead
	}
	return a.bulk(c, func(b *bulk) (int, error) {
		b.dryRun = dryRun
		if c.body.has("ids") {
			return byID(b, c.topic(), get[[]string](c.body, "ids"))
		}
		return byFilter(b, inspect.DeadFilter{
			Topic: c.topic(), Reason: get[string](c.body, "reason"), Error: get[string](c.body, "error"),
			After: get[time.Time](c.body, "after"), Before: get[time.Time](c.body, "before"),
		})
	})
}

// mayRequeue fails if the topic has no such dead letter or a job with its ID exists.
func (a *api) mayRequeue(ctx context.Context, topic, id string) error {
	job, err := a.client.Get(ctx, id)
	switch {
	case err != nil:
		return err
	case job.State != client.Dead:
		return client.ErrExists
	case job.Topic != topic:
		return client.ErrNotFound
	}
	return nil
}

// requeueIDs requeues each ID and records its result; a dry run only counts.
func (a *api) requeueIDs(b *bulk, topic string, ids []string) (count int, err error) {
	for _, id := range ids {
		err := a.mayRequeue(b, topic, id)
		if !b.dryRun && (err == nil || errors.Is(err, client.ErrExists)) { // Requeue also checks that the dead letter exists
			err = a.client.Requeue(b, id)
		}
		switch {
		case err == nil:
			count++
		case !errors.Is(err, client.ErrExists) && !errors.Is(err, client.ErrNotFound):
			return count, err
		}
		if !b.dryRun {
			b.results = append(b.results, result(client.Result{ID: id, Err: err}))
		}
	}
	return count, nil
}

func (a *api) dropIDs(b *bulk, topic string, ids []string) (int, error) {
	return a.client.DropDead(b, topic, ids...)
}

// How many dead letters are examined for groups.
const (
	defaultLook = 1000
	maxLook     = 10000
)

func (a *api) deadGroups(c *call) (response, error) {
	limit, err := c.number("limit", defaultLook, 1, maxLook)
	if err != nil {
		return response{}, err
	}
	found, err := a.inspector.DeadGroups(c.context(), c.topic(), limit)
	return ok(view.DeadGroups(found)), err
}
