package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
)

// obstacle says what keeps the topic's ready jobs from being delivered: a pause, a limit, or both. It is empty if
// nothing does, or if this Redis user may not know.
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

// paused returns the topic's pause, nil if it is not paused.
func (c *call) paused(ctx context.Context, topic string) (*store.Pause, error) {
	pauses, err := c.jobs.Paused(ctx)
	return pauses.Of(topic), err
}

// pauseText says since when and until when a topic is paused, and why.
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

// explained adds to the error of a pop that found no job what keeps the topic's jobs.
func (c *call) explained(ctx context.Context, topic string, err error) error {
	if errors.Is(err, client.ErrEmpty) {
		if why := c.obstacle(ctx, topic); why != "" {
			return fmt.Errorf("%w; %s", err, why)
		}
	}
	return err
}
