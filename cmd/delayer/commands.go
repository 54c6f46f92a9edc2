package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mix-basic/delayer/client"
)

func runPush(ctx context.Context, c *call) error {
	topic, body := c.arguments[0], c.arguments[2]
	delay, err := parseDuration("DELAY", c.arguments[1])
	if err != nil {
		return err
	}
	if body == "-" {
		data, err := io.ReadAll(os.Stdin)
		if err != nil {
			return fail(exitUsage, fmt.Errorf("BODY from standard input: %w", err))
		}
		body = string(data)
	}
	id, err := c.client.Push(ctx, client.Message{ID: c.id, Topic: topic, Body: body}, delay)
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(map[string]string{"id": id})
	}
	return c.print(id)
}

func runPop(ctx context.Context, c *call) error {
	m, err := c.client.Pop(ctx, c.arguments[0])
	if err != nil {
		return err
	}
	return c.printMessage(m)
}

func runBPop(ctx context.Context, c *call) error {
	timeout := time.Duration(0)
	if len(c.arguments) > 1 {
		var err error
		if timeout, err = parseDuration("TIMEOUT", c.arguments[1]); err != nil {
			return err
		}
	}
	m, err := c.client.BPop(ctx, timeout, c.arguments[0])
	if err != nil {
		return err
	}
	return c.printMessage(m)
}

func runRemove(ctx context.Context, c *call) error {
	id := c.arguments[0]
	removed, err := c.client.Remove(ctx, id)
	switch {
	case err != nil:
		return err
	case !removed:
		return fmt.Errorf("remove %q: %w", id, client.ErrNotFound)
	case c.json:
		return c.printJSON(map[string]any{"id": id, "removed": true})
	}
	return c.print("removed " + id)
}

func runGet(ctx context.Context, c *call) error {
	job, err := c.client.Get(ctx, c.arguments[0])
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(jobJSON(job))
	}
	return c.print(jobText(job))
}

// parseDuration reads seconds, as the original's clients take them, or a number with a
// unit: ms, s, m, h or d.
func parseDuration(name, text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if seconds, notPlain := strconv.ParseFloat(text, 64); notPlain == nil {
		d, err = time.ParseDuration(strconv.FormatFloat(seconds, 'f', -1, 64) + "s")
	} else if days, found := strings.CutSuffix(text, "d"); found {
		d, err = time.ParseDuration(days + "h")
		if err == nil && d.Abs() > client.MaxDelay/24 {
			err = errors.New("too long")
		}
		d *= 24
	}
	if err != nil || d < 0 || d > client.MaxDelay {
		return 0, fail(exitUsage, fmt.Errorf("%s %q: want seconds, or a number with ms, s, m, h or d, from 0 to 100 years", name, text))
	}
	return d, nil
}

// printMessage prints a job that was taken: its body, or all of it as JSON.
func (c *call) printMessage(m client.Message) error {
	if c.json {
		return c.printJSON(messageJSON(m))
	}
	return c.print(m.Body)
}

func (c *call) print(line string) error {
	if !strings.HasSuffix(line, "\n") {
		line += "\n"
	}
	_, err := io.WriteString(c.stdout, line)
	return err
}

func (c *call) printJSON(v any) error {
	encoder := json.NewEncoder(c.stdout)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// messageJSON is the JSON form of a job. A body that is no UTF-8 text goes into
// body_base64 instead of body.
func messageJSON(m client.Message) map[string]any {
	v := map[string]any{"id": m.ID, "topic": m.Topic}
	if utf8.ValidString(m.Body) {
		v["body"] = m.Body
	} else {
		v["body_base64"] = []byte(m.Body)
	}
	return v
}

func jobJSON(job client.Job) map[string]any {
	v := messageJSON(job.Message)
	v["state"] = job.State
	if !job.Due.IsZero() {
		v["due"] = job.Due.UTC()
	}
	if job.TTL >= 0 {
		v["ttl_seconds"] = job.TTL.Seconds()
	}
	return v
}

func jobText(job client.Job) string {
	state := string(job.State)
	if !job.Due.IsZero() {
		state += ", due " + job.Due.Format("2006/01/02 15:04:05.000")
	}
	kept := "for ever"
	if job.TTL >= 0 {
		kept = "for another " + job.TTL.Round(time.Second).String()
	}
	return fmt.Sprintf("id:    %s\ntopic: %s\nstate: %s\nkept:  %s\nbody:  %s", job.ID, job.Topic, state, kept, job.Body)
}
