package api

import (
	"context"
	"errors"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/view"
	"github.com/mix-basic/delayer/internal/web"
)

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
