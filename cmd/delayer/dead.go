package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/view"
)

func runDeadList(ctx context.Context, c *call) (reply, error) {
	return c.browse(ctx, inspect.Query{Topic: c.arguments[0], State: inspect.Dead}, "id", "died", "attempts", "reason", "error")
}

func runDeadRequeue(ctx context.Context, c *call) (reply, error) {
	topic := c.arguments[0]
	if len(c.arguments) > 1 {
		return counted("requeued", 1), c.requeue(ctx, topic, c.arguments[1])
	}
	n, err := c.client.RequeueAll(ctx, topic)
	switch {
	case err != nil && n > 0:
		err = fmt.Errorf("%w\nothers are requeued: %d", err, n)
	case err == nil && n == 0:
		err = c.noLetter()
	}
	return counted("requeued", n), err
}

// requeue makes a job of one dead letter again, if it is of that topic.
func (c *call) requeue(ctx context.Context, topic, id string) error {
	job, err := c.client.Get(ctx, id)
	if err == nil && job.State == client.Dead && job.Topic != topic {
		return c.noLetter()
	}
	if err == nil {
		err = c.client.Requeue(ctx, id) // which does nothing as long as there is a job of that ID
	}
	if errors.Is(err, client.ErrNotFound) {
		return c.noLetter()
	}
	return err
}

func runDeadDrop(ctx context.Context, c *call) (_ reply, err error) {
	topic, ids, n := c.arguments[0], c.arguments[1:], 0
	if len(ids) == 0 {
		n, err = c.client.DropAllDead(ctx, topic)
	} else {
		n, err = c.client.DropDead(ctx, topic, ids...)
	}
	if err == nil && n == 0 {
		err = c.noLetter()
	}
	return counted("dropped", n), err
}

func counted(what string, n int) reply {
	return reply{text: fmt.Sprintf("%s %d", what, n), json: view.Of(what, n)}
}

var errNoLetter = errors.New("no such dead letter")

// noLetter names what a command was to find.
func (c *call) noLetter() error {
	words := strings.Trim(fmt.Sprintf("%q", c.arguments), "[]")
	return fmt.Errorf("%s %s: %w", c.command.name, words, errNoLetter)
}
