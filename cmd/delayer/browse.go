package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/view"
)

// found is a job with its state.
type found struct {
	inspect.Job
	state string
}

// jobsOf iterates over the query's jobs. A non-nil matches filters them by ID.
func (c *call) jobsOf(ctx context.Context, q inspect.Query, matches func(string) bool) iter.Seq2[found, error] {
	return func(yield func(found, error) bool) {
		for job, err := range c.jobs.All(ctx, q) {
			if (err != nil || matches == nil || matches(job.ID)) && !yield(found{job, q.State}, err) {
				return
			}
		}
	}
}

// jobRows returns a reply that lists jobs.
func jobRows(columns []string, jobs iter.Seq2[found, error]) reply {
	return reply{rows: &rows{name: "jobs", columns: columns, list: func(yield func(view.Object, error) bool) {
		for job, err := range jobs {
			if !yield(view.Summary(job.Job, client.State(job.state)), err) {
				return
			}
		}
	}}}
}

// selection holds the flags of a command that finds jobs of a topic.
type selection struct {
	state string
	match string
	most  int
}

func (s *selection) define(f *flagSet) {
	oneOf(f, "state", &s.state, inspect.Ready, inspect.Reserved, inspect.Waiting)
	f.text("match", &s.match)
	f.number("limit", &s.most, math.MaxInt32)
}

// jobs iterates over the selected jobs of the topic: ready, then reserved, then waiting ones.
func (s selection) jobs(ctx context.Context, c *call, q inspect.Query) iter.Seq2[found, error] {
	states := []string{inspect.Ready, inspect.Reserved, inspect.Waiting}
	if s.state != "" {
		states = []string{s.state}
	}
	var matches func(string) bool
	if s.match != "" {
		matches = glob(s.match)
	}
	return func(yield func(found, error) bool) {
		n := 0
		for _, q.State = range states {
			for job, err := range c.jobsOf(ctx, q, matches) {
				if !yield(job, err) {
					return
				}
				if n++; n == s.most {
					return
				}
			}
		}
	}
}

func beginList(f *flagSet) action {
	var s selection
	s.define(f)
	f.check = func(arguments []string) error {
		if len(arguments) > 0 {
			return topicGiven(arguments)
		}
		if s.state != inspect.Reserved && s.state != inspect.Waiting {
			return errors.New("want TOPIC, or --state reserved or waiting for the jobs of all topics")
		}
		return nil
	}
	return func(ctx context.Context, c *call) (reply, error) {
		if len(c.arguments) == 0 {
			return jobRows([]string{"id", "topic", "due", "lease_ends", "attempts", "size", "preview"}, s.jobs(ctx, c, inspect.Query{})), nil
		}
		columns := []string{"id", "state", "due", "lease_ends", "attempts", "size", "preview"}
		return jobRows(columns, s.jobs(ctx, c, inspect.Query{Topic: c.arguments[0]})), nil
	}
}

// topicGiven refuses an empty topic.
func topicGiven(arguments []string) error {
	if arguments[0] == "" {
		return errors.New("TOPIC is empty")
	}
	return nil
}

func (c *call) noTopic() error {
	return fail(exitUsage, fmt.Errorf("%s: TOPIC is empty", c.command.name))
}

// manyFlags holds the flags of a command that changes one job or, with --match, many jobs of a
// topic.
type manyFlags struct {
	selection
	consent
}

func (m *manyFlags) define(f *flagSet) {
	m.selection.define(f)
	m.consent.define(f)
	f.check = func([]string) error {
		for _, name := range []string{"state", "limit", "confirm"} {
			if _, given := f.given[name]; given && m.match == "" {
				return fmt.Errorf("--%s goes with --match", name)
			}
		}
		if m.dryRun && m.match == "" {
			return errors.New("--dry-run goes with --match")
		}
		return nil
	}
}

// changedAtOnce is how many jobs are changed at a time: their calls share round trips.
const changedAtOnce = 100

// change applies do to each selected job of the topic. Jobs that disappear in the meantime do not
// count.
func (m manyFlags) change(ctx context.Context, c *call, what string, do func(id string) (bool, error)) (reply, error) {
	topic := c.arguments[0]
	if topic == "" {
		return reply{}, c.noTopic()
	}
	var ids []string
	for job, err := range m.jobs(ctx, c, inspect.Query{Topic: topic}) {
		if err != nil {
			return reply{}, err
		}
		ids = append(ids, job.ID)
	}
	if agreed, err := m.given(ctx, c, len(ids), true); !agreed {
		return m.counted(what, len(ids)), err
	}
	n := 0
	for some := range slices.Chunk(ids, changedAtOnce) {
		did, errs := make([]bool, len(some)), make([]error, len(some))
		var calls sync.WaitGroup
		for i, id := range some {
			calls.Go(func() { did[i], errs[i] = do(id) })
		}
		calls.Wait()
		var failed error
		for i, err := range errs {
			switch {
			case err == nil && did[i]:
				n++
			case err != nil && !errors.Is(err, client.ErrNotFound):
				failed = cmp.Or(failed, err)
			}
		}
		if failed != nil {
			return reply{}, fmt.Errorf("%w\n%s %d of %d", failed, what, n, len(ids))
		}
	}
	return m.counted(what, n), nil
}

func beginRemove(f *flagSet) action {
	var m manyFlags
	m.define(f)
	return func(ctx context.Context, c *call) (reply, error) {
		if m.match != "" {
			return m.change(ctx, c, "removed", func(id string) (bool, error) { return c.client.Remove(ctx, id) })
		}
		return runRemove(ctx, c)
	}
}

func beginReschedule(f *flagSet) action {
	var m manyFlags
	m.define(f)
	return func(ctx context.Context, c *call) (reply, error) {
		delay, err := parseDuration("DELAY", c.arguments[1])
		if err != nil {
			return reply{}, err
		}
		if m.match != "" {
			return m.change(ctx, c, "rescheduled", func(id string) (bool, error) { return true, c.client.Reschedule(ctx, id, delay) })
		}
		id := c.arguments[0]
		return reply{text: "rescheduled " + printable(id, ""), json: object("id", id, "rescheduled", true)}, c.client.Reschedule(ctx, id, delay)
	}
}

func beginPurge(f *flagSet) action {
	var s consent
	s.define(f)
	f.check = topicGiven
	return func(ctx context.Context, c *call) (reply, error) {
		topic := c.arguments[0]
		counts, err := c.countsOf(ctx, topic)
		if err != nil {
			return reply{}, err
		}
		n := counts.Ready
		if n < 0 {
			return reply{}, fail(exitRedis, fmt.Errorf("purge %q: its ready jobs can't be counted: delayer fsck names the broken key", topic))
		}
		agreed, err := s.given(ctx, c, n, true)
		if agreed {
			if n, err = c.jobs.Purge(ctx, topic, n); err != nil && n > 0 {
				err = fmt.Errorf("%w\nothers are purged: %d", err, n)
			}
		}
		return s.counted("purged", n), err
	}
}

// glob returns a function that reports whether a text matches the pattern: * stands for any text, ? for one character.
func glob(pattern string) func(string) bool {
	quoted := regexp.QuoteMeta(strings.ToValidUTF8(pattern, "\ufffd"))
	return regexp.MustCompile("(?s)^" + strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(quoted) + "$").MatchString
}
