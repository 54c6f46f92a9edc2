package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/view"
)

// bodyOf returns the body given by an argument. A - stands for standard input.
func bodyOf(ctx context.Context, argument string) (body string, err error) {
	if argument != "-" {
		return argument, nil
	}
	var data []byte
	err = await(ctx, func() (err error) {
		data, err = io.ReadAll(os.Stdin)
		return err
	})
	if err != nil && ctx.Err() == nil {
		err = fail(exitUsage, fmt.Errorf("BODY from standard input: %w", err))
	}
	return string(data), err
}

func runRemove(ctx context.Context, c *call) (reply, error) {
	id := c.arguments[0]
	removed, err := c.client.Remove(ctx, id)
	if err == nil && !removed {
		err = fmt.Errorf("remove %q: %w", id, client.ErrNotFound)
	}
	return reply{text: "removed " + printable(id, ""), json: object("id", id, "removed", true)}, err
}

func runGet(ctx context.Context, c *call) (reply, error) {
	job, err := c.client.Get(ctx, c.arguments[0])
	if err != nil {
		return reply{}, err
	}
	if job.State == client.Ready || job.State == client.Waiting {
		if why := c.obstacle(ctx, job.Topic); why != "" {
			c.note(why)
		}
	}
	o := view.Job(job)
	text := inLines(o, "error", "body")
	if job.Error != "" {
		text += "error:         " + indented(job.Error) + "\n"
	}
	return reply{text: text + "body:          " + job.Body, json: o, safe: true}, nil
}

// indented indents the further lines of a text, so that they can't be mistaken for other output.
func indented(text string) string {
	return strings.ReplaceAll(printable(strings.TrimRight(text, "\n"), "\n\t"), "\n", "\n"+strings.Repeat(" ", 15))
}

// parseDuration reads a DELAY or a TIMEOUT.
func parseDuration(name, text string) (time.Duration, error) {
	d, err := duration.Parse(text)
	if err != nil || d < 0 || d > client.MaxDelay {
		return 0, fail(exitUsage, fmt.Errorf("%s %q: want seconds, or a number with ms, s, m, h or d, from 0 to 100 years", name, text))
	}
	return d, nil
}
