package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/view"
	"github.com/mix-basic/delayer/internal/web/api"
)

func beginExport(f *flagSet) action {
	var s selection
	s.define(f)
	f.check = topicGiven
	return func(ctx context.Context, c *call) (reply, error) {
		for job, err := range s.jobs(ctx, c, inspect.Query{Topic: c.arguments[0], Whole: true}) {
			if err == nil {
				err = c.write(ctx, jsonLine(exported(job))+"\n")
			}
			if err != nil {
				return reply{}, err
			}
		}
		return reply{}, outputError(c.stdout.Close())
	}
}

// exported returns a job in the form of POST /v1/jobs. A reserved job is exported as ready.
func exported(job found) view.Object {
	o := object("id", job.ID)
	o.Text("topic", job.Topic)
	if job.state == inspect.Waiting {
		if last := time.Now().Add(client.MaxDelay - 24*time.Hour); job.At.After(last) {
			job.At = last // import takes no later one
		}
		o.Put("due", job.At)
	}
	if job.MaxAttempts > 0 {
		o.Put("max_attempts", job.MaxAttempts)
	}
	if job.TTR > 0 {
		o.Put("ttr", job.TTR)
	}
	o.Headers(job.Headers)
	o.Text("body", job.Body)
	return o
}

// importedAtOnce is the number of jobs pushed in one batch, maxImported the maximum length of a line
// in bytes.
const importedAtOnce, maxImported = 1000, 1 << 30

// runImport pushes jobs from lines of JSON.
func runImport(ctx context.Context, c *call) (reply, error) {
	input := os.Stdin
	if len(c.arguments) > 0 && c.arguments[0] != "-" {
		file, err := os.Open(c.arguments[0])
		if err != nil {
			return reply{}, fail(exitUsage, err)
		}
		defer file.Close()
		input = file
	}
	var p pushed
	err := await(ctx, func() error { return c.importFrom(ctx, input, &p) })
	n, refused := int(p.jobs.Load()), p.refused.Load()
	if err != nil && n > 0 {
		err = fmt.Errorf("%w\nthe jobs before are pushed: %d", err, n)
	}
	if refused > 0 {
		c.note(fmt.Sprintf("%d were not pushed, as jobs of their IDs exist", refused))
	}
	return consent{}.counted("pushed", n), err
}

// pushed counts the jobs of an import.
type pushed struct{ jobs, refused atomic.Int64 }

// importFrom pushes a job for each line.
func (c *call) importFrom(ctx context.Context, input io.Reader, p *pushed) error {
	lines := bufio.NewScanner(input)
	lines.Buffer(nil, maxImported)
	var batch []client.Delayed
	push := func() error {
		if len(batch) == 0 {
			return nil
		}
		results, err := c.client.PushBatch(ctx, batch)
		if errors.Is(err, client.ErrExists) { // counted below, with other errors
			err = nil
		}
		for _, r := range results {
			switch {
			case r.Err == nil:
				p.jobs.Add(1)
			case errors.Is(r.Err, client.ErrExists):
				p.refused.Add(1)
			default:
				err = cmp.Or(err, r.Err)
			}
		}
		batch = batch[:0]
		return err
	}
	for number := 1; lines.Scan(); number++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		job, err := api.ReadJob(lines.Bytes())
		if err != nil {
			return errors.Join(push(), fail(exitUsage, fmt.Errorf("import: line %d: %w", number, err)))
		}
		if batch = append(batch, job); len(batch) == importedAtOnce {
			if err := push(); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return fail(exitUsage, fmt.Errorf("import: %w", err))
	}
	return push()
}
