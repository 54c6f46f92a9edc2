package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/inspect"
)

// obstacle is what keeps the ready jobs of a topic from being delivered.
type obstacle struct {
	pause *client.Pause       // nil: it is not paused
	use   inspect.TopicCounts // of its limit; Held and Untagged are 0 if that lets jobs through
}

// obstacle finds out what keeps the topic's jobs. A Redis user who may not ask finds nothing.
func (c *call) obstacle(ctx context.Context, topic string) (o obstacle) {
	o.pause, _ = c.paused(ctx, topic)
	if limit, err := c.client.Limit(ctx, topic); err == nil && limit != (client.Limit{}) {
		o.use, _ = c.countsOf(ctx, topic)
	}
	return o
}

// paused is the topic's pause; nil if it is not paused.
func (c *call) paused(ctx context.Context, topic string) (*client.Pause, error) {
	all, err := c.client.Paused(ctx)
	if i := slices.IndexFunc(all, func(p client.Pause) bool { return p.Topic == topic }); i >= 0 {
		return &all[i], err
	}
	return nil, err
}

// text says it in one line; it is empty if nothing keeps the jobs.
func (o obstacle) text() (text string) {
	if o.pause != nil {
		text = "the topic is paused" + pauseText(*o.pause)
	}
	if o.use.Held > 0 {
		if text != "" {
			text += ", and "
		}
		text += "its limit has been reached (" + useText(o.use) + ")"
	} else if o.use.Untagged > 0 {
		if text != "" {
			text += ", and "
		}
		text += untaggedText(o.use)
	}
	return text
}

// put adds it to a command's JSON.
func (o obstacle) put(v map[string]any) {
	if o.pause != nil {
		pause := pauseJSON(*o.pause)
		delete(pause, "topic")
		delete(pause, "topic_base64")
		v["topic_paused"] = pause
	}
	if o.use.Held > 0 || o.use.Untagged > 0 {
		limited := map[string]any{}
		putUse(limited, o.use)
		v["topic_limited"] = limited
	}
}

// pauseText is since when and until when a topic is paused, and why.
func pauseText(p client.Pause) string {
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
		if text := c.obstacle(ctx, topic).text(); text != "" {
			return fmt.Errorf("%w; %s", err, text)
		}
	}
	return err
}
