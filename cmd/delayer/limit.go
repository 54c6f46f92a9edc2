package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
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
		var use inspect.TopicCounts
		use, err = c.countsOf(ctx, c.arguments[0])
		r.text += "; " + useText(use)
		putUse(r.json, use)
	}
	return r, err
}

// setLimit tells of ready jobs that lack the tag.
func (c *call) setLimit(ctx context.Context, limit client.Limit) (reply, error) {
	err := c.client.SetLimit(ctx, c.arguments[0], limit)
	r := c.limitReply(limit)
	if err == nil && limit.Tag != "" {
		if use, failed := c.countsOf(ctx, c.arguments[0]); failed == nil && use.Untagged > 0 {
			r.text += "; " + useText(use)
			putUse(r.json, use)
		}
	}
	return r, err
}

func (c *call) limitReply(limit client.Limit) reply {
	v := map[string]any{}
	put(v, "topic", c.arguments[0])
	if limit.Concurrency > 0 {
		v["concurrency"] = limit.Concurrency
	}
	if limit.Rate > 0 {
		v["rate"], v["burst"] = limit.Rate, max(limit.Burst, 1)
	}
	putIfAny(v, "tag", limit.Tag)
	return reply{text: printable(c.arguments[0], "") + ": " + limitText(limit), json: v}
}

// countsOf are the topic's.
func (c *call) countsOf(ctx context.Context, topic string) (inspect.TopicCounts, error) {
	counts, err := c.jobs.CountsOf(ctx, topic)
	if err = cmp.Or(err, counts.Broken()); err != nil {
		return inspect.TopicCounts{}, err
	}
	return counts.Topics[0], nil
}

// useText says how much of a limit is used.
func useText(t inspect.TopicCounts) string {
	var parts []string
	if t.Limit.Concurrency > 0 {
		parts = append(parts, fmt.Sprintf("slots taken: %d", t.Slots))
	}
	held := fmt.Sprintf("throttled: %d", t.Held)
	if !t.HeldUntil.IsZero() {
		held += " until " + t.HeldUntil.Format(timeFormat)
	}
	text := strings.Join(append(parts, held), ", ")
	if t.Untagged > 0 {
		text += "; " + untaggedText(t)
	}
	return text
}

// untaggedText says that nobody can reserve some jobs, and what to do.
func untaggedText(t inspect.TopicCounts) string {
	return fmt.Sprintf("%d ready jobs lack the tag %s, nobody will get them: set a limit without a tag, or push them again with that tag in their IDs",
		t.Untagged, printable(t.Limit.Tag, ""))
}

func putUse(v map[string]any, t inspect.TopicCounts) {
	if t.Limit.Concurrency > 0 {
		v["slots_taken"] = t.Slots
	}
	v["throttled"] = t.Held
	if !t.HeldUntil.IsZero() {
		v["throttled_until"] = t.HeldUntil.UTC()
	}
	if t.Limit.Tag != "" {
		v["untagged"] = t.Untagged
	}
}

func limitText(l client.Limit) string {
	var parts []string
	if l.Concurrency > 0 {
		parts = append(parts, fmt.Sprintf("concurrency %d", l.Concurrency))
	}
	if l.Rate > 0 {
		parts = append(parts, fmt.Sprintf("rate %s/s, burst %d", strconv.FormatFloat(l.Rate, 'g', -1, 64), max(l.Burst, 1)))
	}
	if l.Tag != "" {
		parts = append(parts, "tag "+printable(l.Tag, ""))
	}
	if parts == nil {
		return "no limit"
	}
	return strings.Join(parts, ", ")
}
