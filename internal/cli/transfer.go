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
	"github.com/mix-basic/delayer/internal/store"
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
		if last := time.Now().Add(store.MaxDelay - 24*time.Hour); job.At.After(last) {
			job.At = last // import takes no later one
		}
		o.Put("due", job.At)
	}
	o.PutIfAny("max_attempts", job.MaxAttempts)
	o.PutIfAny("lease", job.TTR)
	o.Headers(job.Headers)
	o.Put("body", job.Body)
	return o
}

// importedAtOnce and importedBytes bound what is stored together, maxImported the length of a line in bytes.
const importedAtOnce, importedBytes, maxImported = 1000, 4 << 20, 1 << 30

func beginImport(f *flagSet) action {
	var s consent
	f.toggle("dry-run", &s.dryRun)
	return func(ctx context.Context, c *call) (reply, error) {
		input := os.Stdin
		if len(c.arguments) > 0 && c.arguments[0] != "-" {
			file, err := os.Open(c.arguments[0])
			if err != nil {
				return reply{}, exit.With(exit.Usage, err)
			}
			defer file.Close()
			input = file
		}
		i := &importer{call: c, dryRun: s.dryRun, bar: newProgress(c.stderr)}
		err := async.Await(ctx, func() error { return i.all(ctx, input) })
		i.bar.end()
		pushed, refused, stored, skipped := int(i.pushed.Load()), i.refused.Load(), int(i.stored.Load()), int(i.skipped.Load())
		if err != nil && pushed > 0 {
			err = fmt.Errorf("%w\nthe jobs before are pushed: %d", err, pushed)
		}
		if refused > 0 {
			c.note(fmt.Sprintf("%d were not pushed, as jobs of their IDs exist", refused))
		}
		if stored+skipped == 0 {
			return s.counted("pushed", pushed), err
		}
		if err != nil {
			err = fmt.Errorf("%w\nimported %d, skipped %d: import it again to do the rest", err, stored, skipped)
		}
		done := s.counted("imported", stored+pushed)
		done.text += fmt.Sprintf(", skipped %d, which exist", skipped)
		done.json.Put("skipped", skipped)
		return done, err
	}
}

// importer stores lines of JSON, many of them together: records of an export of everything, and jobs to push.
type importer struct {
	*call
	dryRun bool
	bar    *progress

	// What has been read and is not stored yet.
	topics  []record // limits and pauses
	records []store.Record
	jobs    []client.Item
	bytes   int

	stored, skipped atomic.Int64 // records; the skipped ones exist
	pushed, refused atomic.Int64 // jobs
}

// all reads and stores all lines.
func (i *importer) all(ctx context.Context, input io.Reader) error {
	lines := bufio.NewScanner(input)
	lines.Buffer(nil, maxImported)
	for number := 1; lines.Scan(); number++ {
		line := lines.Bytes()
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := i.read(line); err != nil {
			return errors.Join(i.store(ctx), exit.With(exit.Usage, fmt.Errorf("import: line %d: %w", number, err)))
		}
		if i.bytes += len(line); len(i.topics)+len(i.records)+len(i.jobs) == importedAtOnce || i.bytes >= importedBytes {
			if err := i.store(ctx); err != nil {
				return fmt.Errorf("import: up to line %d: %w", number, err)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return exit.With(exit.Usage, fmt.Errorf("import: %w", err))
	}
	return i.store(ctx)
}

func (i *importer) read(line []byte) error {
	one, is, err := readRecord(line)
	var job client.Item
	if err == nil && !is {
		job, err = api.ReadJob(line)
	}
	switch {
	case err != nil:
		return err
	case !is:
		i.jobs = append(i.jobs, job)
	case one.ofTopic():
		i.topics = append(i.topics, one)
	default:
		i.records = append(i.records, one.stored())
	}
	return nil
}

// store stores what has been read.
func (i *importer) store(ctx context.Context) error {
	for _, r := range i.topics {
		is, err := i.restoreTopic(ctx, r)
		if err != nil {
			return fmt.Errorf("%s of topic %s: %w", r.Kind, store.Quote(string(r.Topic)), err)
		}
		if is {
			i.stored.Add(1)
		} else {
			i.skipped.Add(1)
		}
	}
	stored, err := i.fleet.Restore(ctx, i.records, i.dryRun)
	i.stored.Add(int64(stored))
	if err != nil {
		return err
	}
	i.skipped.Add(int64(len(i.records) - stored))
	if err := i.push(ctx); err != nil {
		return err
	}
	i.topics, i.records, i.jobs, i.bytes = i.topics[:0], i.records[:0], i.jobs[:0], 0
	done, skipped := int(i.stored.Load()), int(i.skipped.Load())
	i.bar.show(done+skipped, 0, fmt.Sprintf("imported %d, skipped %d", done, skipped))
	return nil
}

// restoreTopic stores a limit or a pause unless the topic has one.
func (i *importer) restoreTopic(ctx context.Context, r record) (is bool, err error) {
	topic := string(r.Topic)
	if r.Kind == pauseRecord {
		return i.fleet.RestorePause(ctx, store.Pause{Topic: topic, Until: r.Until, Note: string(r.Note)}, i.dryRun)
	}
	if err := i.fleet.CheckShares(r.limit()); err != nil { // a dry run says so, too
		return false, err
	}
	was, err := i.fleet.Limit(ctx, topic)
	switch {
	case err != nil || was != (store.Limit{}):
		return false, err
	case i.dryRun:
		return true, nil
	}
	return true, i.client.SetLimit(ctx, topic, client.Limit(r.limit()))
}

func (i *importer) push(ctx context.Context) error {
	if len(i.jobs) == 0 || i.dryRun {
		i.pushed.Add(int64(len(i.jobs)))
		return nil
	}
	results, err := i.client.PushBatch(ctx, i.jobs)
	if errors.Is(err, client.ErrExists) { // counted below, with other errors
		err = nil
	}
	for _, r := range results {
		switch {
		case r.Err == nil:
			i.pushed.Add(1)
		case errors.Is(r.Err, client.ErrExists):
			i.refused.Add(1)
		default:
			err = cmp.Or(err, r.Err)
		}
	}
	return err
}
