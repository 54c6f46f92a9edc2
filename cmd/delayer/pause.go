package main

import (
	"context"
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
		if !replace {
			if err := c.checkPaused(ctx, o); err != nil {
				return reply{}, err
			}
		}
		err := c.client.Pause(ctx, c.arguments[0], o)
		return c.onTopic("paused", append(view.Of("paused", true), object("topic", c.arguments[0])...)), err
	}
}

// checkPaused refuses to replace the end or the note of an existing pause.
func (c *call) checkPaused(ctx context.Context, o client.PauseOptions) error {
	p, err := c.paused(ctx, c.arguments[0])
	if err != nil || p == nil || p.Since.IsZero() || o.For == 0 && p.Until.IsZero() && p.Note == o.Note {
		return err
	}
	return fail(exitUsage, fmt.Errorf("pause %q: it is paused already%s; add --replace to give it another end and note", c.arguments[0], pauseText(*p)))
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

func runPaused(ctx context.Context, c *call) (reply, error) {
	pauses, err := c.jobs.Paused(ctx)
	return rowsOf("paused", view.Paused(pauses), "topic", "since", "until", "backed_off_until", "note"), err
}
