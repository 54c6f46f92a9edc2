package main

import (
	"context"
	"fmt"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/view"
)

// browse lists jobs, page by page.
func (c *call) browse(ctx context.Context, q inspect.Query, columns ...string) (reply, error) {
	if q.Topic == "" {
		return reply{}, c.noTopic()
	}
	return reply{rows: &rows{name: "jobs", columns: columns, list: func(yield func(view.Object, error) bool) {
		for job, err := range c.jobs.All(ctx, q) {
			if !yield(view.Summary(job, client.State(q.State)), err) {
				return
			}
		}
	}}}, nil
}

func (c *call) noTopic() error {
	return fail(exitUsage, fmt.Errorf("%s: invalid topic: it is empty", c.command.name))
}
