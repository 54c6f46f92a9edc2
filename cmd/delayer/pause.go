package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
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
		return c.onTopic("paused", map[string]any{"paused": true}), err
	}
}

// checkPaused refuses to replace the end or the note of somebody else's pause.
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
	return c.onTopic(what, map[string]any{"was_paused": was}), err
}

func (c *call) onTopic(what string, v map[string]any) reply {
	put(v, "topic", c.arguments[0])
	return reply{text: what + " " + printable(c.arguments[0], ""), json: v}
}

func runPaused(ctx context.Context, c *call) (reply, error) {
	all, err := c.client.Paused(ctx)
	var text strings.Builder
	for _, p := range all {
		if c.json {
			text.WriteString(jsonLine(pauseJSON(p)) + "\n")
		} else {
			text.WriteString(pauseLine(p))
		}
	}
	return reply{text: text.String(), safe: true}, err
}

func pauseJSON(p client.Pause) map[string]any {
	v := map[string]any{}
	put(v, "topic", p.Topic)
	for name, at := range map[string]time.Time{
		"since": p.Since, "until": p.Until, "backed_off_since": p.BackedOffSince, "backed_off_until": p.BackedOffUntil,
	} {
		if !at.IsZero() {
			v[name] = at.UTC()
		}
	}
	putIfAny(v, "note", p.Note)
	return v
}

// pauseLine is topic, since, until and note. Where nobody has paused it, consumers back off.
func pauseLine(p client.Pause) string {
	since, until, note := p.Since, "", printable(inOneLine(p.Note), "")
	if !p.End().IsZero() {
		until = p.End().Format(timeFormat)
	}
	if since.IsZero() {
		since, note = p.BackedOffSince, "(consumers back off)"
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s\n", printable(p.Topic, ""), since.Format(timeFormat), until, note)
}
