package main

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
)

// topicCommands steer how topics are delivered.
func topicCommands() []command {
	return []command{
		{name: "pause", arguments: "TOPIC", least: 1, most: 1, run: runPause,
			help: "have nothing of a topic delivered to anybody, until it is resumed; all else goes on",
			flags: func(f *flag.FlagSet, o *options) {
				f.Func("for", "", setDuration(&o.pauseFor, maxTime))
				f.Func("note", "", setOnce(&o.note, "a note"))
				boolean(f, &o.replace, "replace")
			},
			options: "--for D -- have it end by itself after D\n" +
				"--note TEXT -- what those see who look: who has paused it, and why\n" +
				"--replace -- if it is paused already, replace its end and note; without it that is refused\n"},
		{name: "resume", arguments: "TOPIC", least: 1, most: 1, run: runResume,
			help: "have a paused topic delivered again, whatever has paused it"},
		{name: "paused", run: runPaused,
			help: "list the topics that are paused: topic, since when, until when, note; a topic that consumers back off from is marked so"},
		{name: "limit", arguments: "TOPIC", least: 1, most: 1, run: runLimit, check: checkLimit,
			help: "show how many jobs of a topic are reserved at a time, and how many begin in a second, at most, of all consumers that reserve, and how much of that is used; or change it",
			flags: func(f *flag.FlagSet, o *options) {
				f.Func("concurrency", "", setNumber(&o.limit.Concurrency, store.MaxConcurrency))
				f.Func("rate", "", setRate(&o.limit.Rate))
				f.Func("burst", "", setNumber(&o.limit.Burst, store.MaxConcurrency))
				f.Func("tag", "", setOnce(&o.limit.Tag, "a tag"))
				boolean(f, &o.noLimit, "none")
			},
			options: "--concurrency N -- so many are reserved at a time\n" +
				"--rate N/s -- so many begin in a second; or /m, /h, /d\n" +
				"--burst N -- so many of these may begin at once; 1 if not given\n" +
				"--tag T -- all IDs of the topic bear {T}: then the limit is that of one partition, and exact\n" +
				"--none -- there is no limit any more\n",
			note: "What is not given is not limited.\n"},
	}
}

func runPause(ctx context.Context, c *call) (reply, error) {
	if !c.replace {
		if err := c.checkPaused(ctx); err != nil {
			return reply{}, err
		}
	}
	err := c.client.Pause(ctx, c.arguments[0], client.PauseOptions{For: c.pauseFor, Note: c.note})
	return c.onTopic("paused", map[string]any{"paused": true}), err
}

// checkPaused refuses to replace the end or the note of somebody else's pause.
func (c *call) checkPaused(ctx context.Context) error {
	p, err := c.paused(ctx, c.arguments[0])
	if err != nil || p == nil || p.Since.IsZero() || c.pauseFor == 0 && p.Until.IsZero() && p.Note == c.note {
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
