package cli

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
	"github.com/mix-basic/delayer/internal/async"
	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/view"
	"github.com/mix-basic/delayer/internal/web/api"
)

func beginExport(f *flagSet) action {
	var s selection
	s.define(f)
	f.check = func(arguments []string) error {
		switch {
		case len(arguments) > 0 && arguments[0] == "":
			return errors.New("TOPIC is empty")
		case len(arguments) == 0 && s != (selection{}):
			return errors.New("--state, --match and --limit need a topic")
		}
		return nil
	}
	return func(ctx context.Context, c *call) (reply, error) {
		if len(c.arguments) == 0 {
			if err := async.Await(ctx, func() error { return c.exportAll(ctx) }); err != nil {
				return reply{}, err
			}
			return reply{}, outputError(c.stdout.Close())
		}
		if err := c.exportTopic(ctx, s); err != nil {
			return reply{}, err
		}
		return reply{}, outputError(c.stdout.Close())
	}
}

// exportTopic prints the topic's selected jobs.
func (c *call) exportTopic(ctx context.Context, s selection) error {
	matches, n := inspect.Glob(s.match), 0
	for _, state := range s.states() {
		for job, err := range c.jobs.All(ctx, inspect.Query{Topic: c.arguments[0], State: state, Whole: true}) {
			if err == nil && !matches(job.ID) {
				continue
			}
			if err == nil {
				err = c.write(ctx, jsonLine(exported(job, state))+"\n")
			}
			if n++; err != nil || n == s.most {
				return err
			}
		}
	}
	return nil
}

// exported returns a job in the form of POST /v1/jobs. A reserved job is exported as ready.
func exported(job inspect.Job, state string) view.Object {
	o := view.Of("id", job.ID, "topic", job.Topic)
	if state == inspect.Waiting {
		if last := time.Now().Add(client.MaxDelay - 24*time.Hour); job.At.After(last) {
			job.At = last // import takes no later one
		}
		o.Put("due", job.At)
	}
	o.PutIfAny("max_attempts", job.MaxAttempts)
	o.PutIfAny("ttr", job.TTR)
	o.Headers(job.Headers)
	o.Put("body", job.Body)
	return o
}

// importedAtOnce is the number of jobs pushed in one batch, maxImported the maximum length of a line
// in bytes.
const importedAtOnce, maxImported = 1000, 1 << 30

func beginImport(f *flagSet) action {
	var dryRun bool
	f.toggle("dry-run", &dryRun)
	return func(ctx context.Context, c *call) (reply, error) { return c.importAll(ctx, dryRun) }
}

// importAll pushes the jobs and stores the records of lines of JSON.
func (c *call) importAll(ctx context.Context, dryRun bool) (reply, error) {
	input := os.Stdin
	if len(c.arguments) > 0 && c.arguments[0] != "-" {
		file, err := os.Open(c.arguments[0])
		if err != nil {
			return reply{}, exit.With(exit.Usage, err)
		}
		defer file.Close()
		input = file
	}
	var p pushed
	p.dryRun = dryRun
	r := c.restorer(dryRun)
	err := async.Await(ctx, func() error { return c.importFrom(ctx, input, &p, r) })
	r.bar.end()
	n, refused := int(p.jobs.Load()), p.refused.Load()
	if err != nil && n > 0 {
		err = fmt.Errorf("%w\nthe jobs before are pushed: %d", err, n)
	}
	if refused > 0 {
		c.note(fmt.Sprintf("%d were not pushed, as jobs of their IDs exist", refused))
	}
	stored, skipped := int(r.stored.Load()), int(r.skipped.Load())
	if stored+skipped == 0 {
		return consent{dryRun: dryRun}.counted("pushed", n), err
	}
	if err != nil {
		err = fmt.Errorf("%w\nimported %d, skipped %d: import it again to do the rest", err, stored, skipped)
	}
	done := consent{dryRun: dryRun}.counted("imported", stored+n)
	done.text += fmt.Sprintf(", skipped %d, which exist", skipped)
	done.json.Put("skipped", skipped)
	return done, err
}

// pushed counts the jobs of an import.
type pushed struct {
	jobs, refused atomic.Int64
	dryRun        bool
}

// importFrom pushes a job for each line, or stores its record.
func (c *call) importFrom(ctx context.Context, input io.Reader, p *pushed, r *restorer) error {
	lines := bufio.NewScanner(input)
	lines.Buffer(nil, maxImported)
	var batch []client.Delayed
	push := func() error {
		if err := r.flush(ctx); err != nil || len(batch) == 0 {
			return err
		}
		if p.dryRun {
			p.jobs.Add(int64(len(batch)))
			batch = batch[:0]
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
		one, is, err := readRecord(lines.Bytes())
		if err == nil && is {
			if err := r.add(ctx, one, len(lines.Bytes())); err != nil {
				return fmt.Errorf("import: up to line %d: %w", number, err)
			}
			continue
		}
		var job client.Delayed
		if err == nil {
			job, err = api.ReadJob(lines.Bytes())
		}
		if err != nil {
			return errors.Join(push(), exit.With(exit.Usage, fmt.Errorf("import: line %d: %w", number, err)))
		}
		if batch = append(batch, job); len(batch) == importedAtOnce {
			if err := push(); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return exit.With(exit.Usage, fmt.Errorf("import: %w", err))
	}
	return push()
}
