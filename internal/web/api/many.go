package api

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/view"
	"github.com/mix-basic/delayer/internal/web"
)

// changedAtOnce is how many jobs are changed at a time: their calls share round trips.
const changedAtOnce = 100

func (c *call) removeMany() (any, error) {
	return c.change(func(ctx context.Context, id string) (bool, error) {
		was, err := c.client.Remove(ctx, id)
		return was != "", err
	})
}

func (c *call) rescheduleMany() (any, error) {
	delay := get[time.Duration](c.body, "delay")
	return c.change(func(ctx context.Context, id string) (bool, error) { return true, c.client.Reschedule(ctx, id, delay) })
}

// change applies do to each selected job of the topic, or counts them. Jobs that disappear meanwhile do not count.
func (c *call) change(do func(ctx context.Context, id string) (bool, error)) (any, error) {
	return c.bulk(func(b *bulk) (int, error) {
		ids, err := c.selected(b)
		if err != nil || get[bool](c.query, dryRun.Name) {
			return len(ids), err
		}
		done := 0
		for some := range slices.Chunk(ids, changedAtOnce) {
			did, errs := make([]bool, len(some)), make([]error, len(some))
			var calls sync.WaitGroup
			for i, id := range some {
				calls.Go(func() { did[i], errs[i] = do(b, id) })
			}
			calls.Wait()
			var failed error
			for i, err := range errs {
				switch {
				case err == nil && did[i]:
					done++
				case err != nil && !errors.Is(err, client.ErrNotFound):
					failed = cmp.Or(failed, err)
				}
			}
			if failed != nil {
				return done, failed
			}
		}
		return done, nil
	})
}

// selected returns the IDs of the topic's jobs that the query selects: of ready, then reserved, then waiting ones.
func (c *call) selected(ctx context.Context) (ids []string, err error) {
	states := []string{inspect.Ready, inspect.Reserved, inspect.Waiting}
	if state := get[string](c.query, anyState.Name); state != "" {
		states = []string{state}
	}
	matches, limit := inspect.Glob(get[string](c.query, match.Name)), get[int](c.query, most.Name)
	for _, state := range states {
		for job, err := range c.inspector.All(ctx, inspect.Query{Topic: c.topic(), State: state}) {
			if err != nil {
				return nil, err
			}
			if len(ids) == limit {
				return ids, nil
			}
			if matches(job.ID) {
				ids = append(ids, job.ID)
			}
		}
	}
	return ids, nil
}

// bulk is the state of a request on any number of jobs: its context and the results of single jobs.
type bulk struct {
	context.Context
	results []object
}

// bulk runs do and answers with the number of jobs, even if it ended early.
func (c *call) bulk(do func(*bulk) (count int, err error)) (any, error) {
	ctx, cancel := web.Long(c.w, c.r, c.MaxWork)
	defer cancel()
	b := &bulk{Context: ctx}
	count, err := do(b)
	if err != nil && count == 0 && b.results == nil && !errors.Is(err, inspect.ErrKept) {
		return nil, c.bulkError(ctx, err)
	}
	o := view.Of("count", count, "complete", err == nil && count >= len(b.results))
	if err != nil {
		p := problemOf(c.bulkError(ctx, err))
		if p.isTrouble() {
			c.Failed(err)
		}
		o.Put("problem", p.json())
	}
	if b.results != nil {
		o.Put("results", b.results)
	}
	return o, nil
}

// bulkError returns the reason why a bulk request ended early.
func (c *call) bulkError(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, web.ErrStopping):
		return cause
	case errors.Is(cause, context.DeadlineExceeded):
		return slow.problem("it was not finished after %v; repeat the request for the rest", duration.Format(c.MaxWork))
	case errors.Is(err, inspect.ErrKept) && errors.Is(err, client.ErrExists):
		return exists.problem("some remain dead letters because jobs with their IDs exist")
	}
	return err
}
