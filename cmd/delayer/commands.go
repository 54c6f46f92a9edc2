package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/duration"
)

func runPush(ctx context.Context, c *call) (reply, error) {
	if err := notClosed(c.stdout); err != nil { // the ID would be lost
		return reply{}, outputError(err)
	}
	topic, body := c.arguments[0], c.arguments[2]
	delay, err := parseDuration("DELAY", c.arguments[1])
	if err != nil {
		return reply{}, err
	}
	if body == "-" {
		if body, err = readInput(ctx); err != nil {
			return reply{}, err
		}
	}
	var terms []client.PushOption
	if c.ttr > 0 {
		terms = append(terms, client.TTR(c.ttr))
	}
	if c.maxAttempts > 0 {
		terms = append(terms, client.MaxAttempts(c.maxAttempts))
	}
	if c.replicas > 0 {
		terms = append(terms, client.Replicas(c.replicas, cmp.Or(c.replicasTimeout, time.Second)))
	}
	if c.once > 0 {
		terms = append(terms, client.Once(c.once))
	}
	if c.debounce > 0 {
		terms = append(terms, client.IfExists(client.Debounce(c.debounce)))
	}
	if c.follow {
		terms = append(terms, client.IfExists(client.Follow))
	}
	if c.group != "" {
		terms = append(terms, client.Group(c.group, client.GroupOptions{Max: c.max, Quiet: c.quiet, Longest: c.longest}))
	}
	var did client.Outcome
	id, err := c.client.Push(ctx, client.Message{ID: c.id, Topic: topic, Body: body}, delay, append(terms, client.Report(&did))...)
	if c.once > 0 && did == client.Refused {
		briefly(func() {
			fmt.Fprintf(c.stderr, "Note: a push of %q counted before; this one changed nothing.\n", c.id)
		})
		id, err = c.id, nil
	}
	v := idJSON(id)
	v["outcome"] = did
	return reply{text: id, json: v}, err
}

// checkPush finds flags of push that do not go together, or not without another.
func checkPush(o *options) error {
	switch {
	case o.once != 0 && o.debounce != 0:
		return errors.New("--once and --debounce do not go together: want one of the two")
	case o.follow && (o.once != 0 || o.debounce != 0):
		return errors.New("--follow does not go together with --once or --debounce: want one of them")
	case o.group != "" && (o.follow || o.debounce != 0):
		return errors.New("--group does not go together with --debounce or --follow: want one of them")
	case o.follow && o.id == "":
		return errors.New("--follow means nothing without --id")
	case o.once != 0 && o.id == "":
		return errors.New("--once means nothing without --id")
	case o.debounce != 0 && o.id == "":
		return errors.New("--debounce means nothing without --id")
	case o.group != "" && o.id != "" && o.once == 0:
		return errors.New("--id means nothing with --group, but with --once")
	case o.group != "" && o.quiet == 0 && o.longest == 0:
		return errors.New("--group needs --quiet or --longest: it might never be delivered")
	case o.group == "" && (o.max != 0 || o.quiet != 0 || o.longest != 0):
		return errors.New("--max, --quiet and --longest mean nothing without --group")
	case o.replicasTimeout != 0 && o.replicas == 0:
		return errors.New("--replicas-timeout means nothing without --replicas")
	}
	return nil
}

// readInput reads a body from the standard input.
func readInput(ctx context.Context) (body string, err error) {
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
	v := idJSON(id)
	v["removed"] = true
	return reply{text: "removed " + printable(id, ""), json: v}, err
}

func runGet(ctx context.Context, c *call) (reply, error) {
	job, err := c.client.Get(ctx, c.arguments[0])
	if err != nil {
		return reply{}, err
	}
	var keeps obstacle
	if job.State == client.Ready || job.State == client.Waiting {
		keeps = c.obstacle(ctx, job.Topic)
	}
	v := jobJSON(job)
	keeps.put(v)
	return reply{text: jobText(job, keeps), json: v, safe: true}, nil
}

// parseDuration reads a DELAY or a TIMEOUT.
func parseDuration(name, text string) (time.Duration, error) {
	d, err := duration.Parse(text)
	if err != nil || d < 0 || d > client.MaxDelay {
		return 0, fail(exitUsage, fmt.Errorf("%s %q: want seconds, or a number with ms, s, m, h or d, from 0 to 100 years", name, text))
	}
	return d, nil
}
