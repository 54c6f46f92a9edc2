package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/view"
)

func beginPause(f *flagSet) action {
	var o client.PauseOptions
	var replace bool
	f.duration("for", &o.For, maxTime)
	f.text("note", &o.Note)
	f.toggle("replace", &replace)
	return func(ctx context.Context, c *call) (reply, error) {
		topic := c.arguments[0]
		o.UnlessPaused = !replace
		err := c.client.Pause(ctx, topic, o)
		if errors.Is(err, client.ErrPaused) {
			err = c.pausedAlready(ctx, topic)
		}
		return c.onTopic("paused", append(view.Of("paused", true), object("topic", topic)...)), err
	}
}

func (c *call) pausedAlready(ctx context.Context, topic string) error {
	now := ""
	if p, _ := c.paused(ctx, topic); p != nil {
		now = pauseText(*p)
	}
	return fail(exitUsage, fmt.Errorf("pause %q: it is paused already%s; add --replace to give it another end and note", topic, now))
}

func runResume(ctx context.Context, c *call) (reply, error) {
	was, err := c.client.Resume(ctx, c.arguments[0])
	what := "resumed"
	if !was {
		what = "was not paused:"
	}
	return c.onTopic(what, object("topic", c.arguments[0], "was_paused", was)), err
}

func (c *call) onTopic(what string, o view.Object) reply {
	return reply{text: what + " " + printable(c.arguments[0], ""), json: o}
}
