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
)

// runLimit sets or ends a topic's limit if it is told to, and shows it.
func runLimit(ctx context.Context, c *call) (reply, error) {
	topic, limit := c.arguments[0], c.limit
	shows := !c.noLimit && limit == (client.Limit{})
	var err error
	if shows {
		limit, err = c.client.Limit(ctx, topic)
	} else {
		err = c.client.SetLimit(ctx, topic, limit)
	}
	v := map[string]any{}
	put(v, "topic", topic)
	if limit.Concurrency > 0 {
		v["concurrency"] = limit.Concurrency
	}
	if limit.Rate > 0 {
		v["rate"], v["burst"] = limit.Rate, max(limit.Burst, 1)
	}
	putIfAny(v, "tag", limit.Tag)
	text := printable(topic, "") + ": " + limitText(limit)
	if err == nil && (shows && limit != (client.Limit{}) || limit.Tag != "") {
		var use inspect.TopicCounts
		if use, err = c.countsOf(ctx, topic); !shows {
			err = nil // the limit is in force
		}
		if shows || use.Untagged > 0 {
			text += "; " + useText(use)
			putUse(v, use)
		}
	}
	return reply{text: text, json: v, safe: shows}, err
}

// countsOf are the topic's.
func (c *call) countsOf(ctx context.Context, topic string) (inspect.TopicCounts, error) {
	pool := client.NewPool(c.pool)
	defer pool.Close()
	counts, err := inspect.New(pool, c.redis.Prefix, layoutOf(c.redis)).CountsOf(ctx, topic)
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
	held := fmt.Sprintf("held back: %d", t.Held)
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
	v["held_back"] = t.Held
	if !t.HeldUntil.IsZero() {
		v["held_until"] = t.HeldUntil.UTC()
	}
	if t.Limit.Tag != "" {
		v["untagged"] = t.Untagged
	}
}

// checkLimit refuses a limit that is set and ended by one command.
func checkLimit(o *options) error {
	if o.noLimit && o.limit != (client.Limit{}) {
		return errors.New("--none does not go with a limit")
	}
	return nil
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

// setRate reads how many a second, minute, hour or day: 10/s, 0.5/m. It may be given once.
func setRate(rate *float64) func(string) error {
	return func(text string) (err error) {
		if *rate != 0 {
			return fmt.Errorf("%v/s was given before", *rate)
		}
		*rate, err = duration.ParseRate(text)
		return err
	}
}
