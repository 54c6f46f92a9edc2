package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/view"
)

func beginLimit(f *flagSet) action {
	var limit client.Limit
	var none bool
	f.number("concurrency", &limit.Concurrency, store.MaxConcurrency)
	f.one("rate", func(value string) (err error) {
		limit.Rate, err = duration.ParseRate(value)
		return err
	})
	f.number("burst", &limit.Burst, store.MaxConcurrency)
	f.text("tag", &limit.Tag)
	f.toggle("none", &none)
	f.check = func([]string) error {
		if none && limit != (client.Limit{}) {
			return errors.New("--none does not go with a limit")
		}
		return nil
	}
	return func(ctx context.Context, c *call) (reply, error) {
		if none || limit != (client.Limit{}) {
			return c.setLimit(ctx, limit)
		}
		return c.showLimit(ctx)
	}
}

func (c *call) showLimit(ctx context.Context) (reply, error) {
	limit, err := c.client.Limit(ctx, c.arguments[0])
	r := c.limitReply(limit)
	r.safe = true
	if err == nil && limit != (client.Limit{}) {
		var t inspect.TopicCounts
		t, err = c.countsOf(ctx, c.arguments[0])
		r.addUse(t)
	}
	return r, err
}

// setLimit sets the limit, and reports ready jobs that lack the tag.
func (c *call) setLimit(ctx context.Context, limit client.Limit) (reply, error) {
	err := c.client.SetLimit(ctx, c.arguments[0], limit)
	r := c.limitReply(limit)
	if err == nil && limit.Tag != "" {
		if t, failed := c.countsOf(ctx, c.arguments[0]); failed == nil && t.Untagged > 0 {
			r.addUse(t)
		}
	}
	return r, err
}

func (c *call) limitReply(limit client.Limit) reply {
	text := "no limit"
	if limit != (client.Limit{}) {
		text = cells(view.Limit(limit))
	}
	return reply{text: printable(c.arguments[0], "") + ": " + text, json: append(object("topic", c.arguments[0]), view.Limit(limit)...)}
}

// addUse adds the current use of the limit.
func (r *reply) addUse(t inspect.TopicCounts) {
	r.text += "; " + useText(t)
	if t.Untagged > 0 {
		r.text += "; " + untaggedText(t)
	}
	r.json = append(r.json, view.Use(t)...)
}

// countsOf returns the topic's counts.
func (c *call) countsOf(ctx context.Context, topic string) (inspect.TopicCounts, error) {
	counts, err := c.jobs.CountsOf(ctx, topic)
	if err = cmp.Or(err, counts.Broken()); err != nil {
		return inspect.TopicCounts{}, err
	}
	return counts.Topics[0], nil
}

// useText describes the use of a limit, not counting jobs that lack the tag.
func useText(t inspect.TopicCounts) string {
	t.Limit.Tag = ""
	return cells(view.Use(t))
}

// untaggedText warns that some jobs can't be reserved, and suggests a fix.
func untaggedText(t inspect.TopicCounts) string {
	return fmt.Sprintf("ready jobs without the tag %s, which nobody will get: %d; set a limit without a tag, or push them again with that tag in their IDs",
		printable(t.Limit.Tag, ""), t.Untagged)
}
