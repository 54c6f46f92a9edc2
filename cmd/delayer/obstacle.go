package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
)

// obstacle describes why the topic's ready jobs are not delivered: a pause, a limit, or both. It is empty without
// such a reason, or if this Redis user lacks the permissions.
func (c *call) obstacle(ctx context.Context, topic string) string {
	var parts []string
	if p, err := c.paused(ctx, topic); err == nil && p != nil {
		parts = append(parts, "the topic is paused"+pauseText(*p))
	}
	if t, err := c.countsOf(ctx, topic); err == nil && t.Throttled > 0 {
		parts = append(parts, "its limit has been reached ("+useText(t)+")")
	} else if err == nil && t.Untagged > 0 {
		parts = append(parts, untaggedText(t))
	}
	return strings.Join(parts, ", and ")
}

// paused returns the topic's pause, or nil.
func (c *call) paused(ctx context.Context, topic string) (*store.Pause, error) {
	pauses, err := c.jobs.Paused(ctx)
	return pauses.Of(topic), err
}

// pauseText describes the start, the end and the note of a pause.
func pauseText(p store.Pause) string {
	text := ", as consumers back off from it"
	if !p.Since.IsZero() {
		text = " since " + p.Since.Format(timeFormat)
	}
	if !p.End().IsZero() {
		text += ", until " + p.End().Format(timeFormat)
	}
	if p.Note != "" {
		text += ": " + printable(inOneLine(p.Note), "")
	}
	return text
}

// explained adds the reason why ready jobs are not delivered to the error of a pop that found no
// job.
func (c *call) explained(ctx context.Context, topic string, err error) error {
	if errors.Is(err, client.ErrEmpty) {
		if why := c.obstacle(ctx, topic); why != "" {
			return fmt.Errorf("%w; %s", err, why)
		}
	}
	return err
}
