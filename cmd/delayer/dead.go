package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/view"
)

// letters holds the flags of a command that finds dead letters.
type letters struct {
	inspect.DeadFilter
	match        string
	older, newer time.Duration
}

func (l *letters) define(f *flagSet) {
	f.text("reason", &l.Reason)
	f.text("error", &l.Error)
	f.duration("older", &l.older, maxTime)
	f.duration("newer", &l.newer, maxTime)
	f.text("match", &l.match)
	f.number("limit", &l.Most, math.MaxInt32)
	f.check = func(arguments []string) error {
		if len(arguments) > 1 && (l.Reason != "" || l.Error != "" || l.older > 0 || l.newer > 0 || l.match != "" || l.Most > 0) {
			return errors.New("want an ID or options that select dead letters, not both")
		}
		return topicGiven(arguments)
	}
}

// of returns the filter for the topic's letters.
func (l letters) of(topic string) inspect.DeadFilter {
	f, now := l.DeadFilter, time.Now()
	f.Topic = topic
	if l.older > 0 {
		f.Before = now.Add(-l.older)
	}
	if l.newer > 0 {
		f.After = now.Add(-l.newer)
	}
	if l.match != "" {
		f.ID = glob(l.match)
	}
	return f
}

func beginDeadList(f *flagSet) action {
	var l letters
	l.define(f)
	return func(ctx context.Context, c *call) (reply, error) {
		return jobRows([]string{"id", "died", "attempts", "reason", "error"}, l.jobs(ctx, c)), nil
	}
}

// jobs iterates over the letters, newest first.
func (l letters) jobs(ctx context.Context, c *call) iter.Seq2[found, error] {
	filter := l.of(c.arguments[0])
	return func(yield func(found, error) bool) {
		n := 0
		for job, err := range c.jobsOf(ctx, inspect.Query{Topic: filter.Topic, State: inspect.Dead}, nil) {
			if err == nil && !filter.Selects(job.Job) {
				continue
			}
			if !yield(job, err) {
				return
			}
			if n++; n == l.Most {
				return
			}
		}
	}
}

func beginDeadGroups(f *flagSet) action {
	f.check = topicGiven
	return func(ctx context.Context, c *call) (reply, error) {
		found, err := c.jobs.DeadGroups(ctx, c.arguments[0], maxGrouped)
		o := view.DeadGroups(found)
		r := rowsOf("groups", o[0].Value.([]view.Object), "count", "newest", "oldest", "reason", "error")
		r.rows.more = o[1:]
		if found.More {
			r.rows.notes = []string{fmt.Sprintf("only the newest %d dead letters were examined", found.Looked)}
		}
		return r, err
	}
}

// maxGrouped is the maximum number of dead letters examined for groups.
const maxGrouped = 10000

// beginDead prepares a command that changes dead letters: one by its ID, or the selected ones. Where nobody can be asked, one that deletes
// them needs --confirm.
func beginDead(what string, deletes bool, one func(c *call, ctx context.Context, topic, id string) error, many func(*inspect.Inspector, context.Context, inspect.DeadFilter) (int, error)) func(*flagSet) action {
	return func(f *flagSet) action {
		var l letters
		var s consent
		l.define(f)
		s.define(f)
		return func(ctx context.Context, c *call) (reply, error) {
			topic := c.arguments[0]
			if len(c.arguments) > 1 && !s.dryRun {
				return s.counted(what, 1), one(c, ctx, topic, c.arguments[1])
			}
			filter := l.of(topic)
			if len(c.arguments) > 1 {
				filter.ID = func(id string) bool { return id == c.arguments[1] }
			}
			if deletes || s.dryRun || s.most > 0 || s.asks(c) {
				n, err := c.jobs.CountDead(ctx, filter)
				switch {
				case err != nil:
					return reply{}, err
				case n == 0 && len(c.arguments) > 1:
					return reply{}, c.noLetter()
				}
				if agreed, err := s.given(ctx, c, n, deletes); !agreed {
					return s.counted(what, n), err
				}
				filter.Most = n // leaves out letters that have arrived since
			}
			n, err := many(c.jobs, ctx, filter)
			if err != nil && n > 0 {
				err = fmt.Errorf("%w\nothers are %s: %d", err, what, n)
			}
			return s.counted(what, n), err
		}
	}
}

// requeue turns a dead letter of the topic into a job again.
func (c *call) requeue(ctx context.Context, topic, id string) error {
	job, err := c.client.Get(ctx, id)
	if err == nil && job.State == client.Dead && job.Topic != topic {
		return c.noLetter()
	}
	if err == nil {
		err = c.client.Requeue(ctx, id) // no effect while there is a job with this ID
	}
	if errors.Is(err, client.ErrNotFound) {
		return c.noLetter()
	}
	return err
}

// drop deletes one dead letter of the topic.
func (c *call) drop(ctx context.Context, topic, id string) error {
	n, err := c.client.DropDead(ctx, topic, id)
	if err == nil && n == 0 {
		err = c.noLetter()
	}
	return err
}

var errNoLetter = errors.New("no such dead letter")

// noLetter returns an error that names the dead letters a command looked for.
func (c *call) noLetter() error {
	words := strings.Trim(fmt.Sprintf("%q", c.arguments), "[]")
	return fmt.Errorf("%s %s: %w", c.command.name, words, errNoLetter)
}
