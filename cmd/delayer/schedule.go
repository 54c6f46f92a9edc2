package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/cron"
	"github.com/mix-basic/delayer/internal/view"
)

const occurrenceFormat = "2006-01-02T15:04:05.999Z07:00"

func beginScheduleAdd(f *flagSet) action {
	var s client.Schedule
	var ttr time.Duration
	var maxAttempts int
	f.text("zone", &s.Zone)
	f.headers(&s.Headers)
	oneOf(f, "missed", &s.Missed, client.MissedOnce, client.MissedSkip, client.MissedAll)
	oneOf(f, "overlap", &s.Overlap, client.OverlapAllow, client.OverlapSkip, client.OverlapFollow)
	f.duration("jitter", &s.Jitter, maxTime)
	f.duration("ttr", &ttr, maxLease)
	f.number("max-attempts", &maxAttempts, math.MaxInt32)
	return func(ctx context.Context, c *call) (_ reply, err error) {
		s.Name, s.Cron, s.Topic = c.arguments[0], c.arguments[1], c.arguments[2]
		if s.Body, err = bodyOf(ctx, c.arguments[3]); err != nil {
			return reply{}, err
		}
		if _, err := zoneOf(s.Zone); err != nil {
			return reply{}, err
		}
		s.Options = jobTerms(ttr, maxAttempts)
		next, err := c.client.Schedule(ctx, s)
		return reply{text: next.Format(occurrenceFormat), json: object("name", s.Name, "next", next)}, err
	}
}

func runScheduleRemove(ctx context.Context, c *call) (reply, error) {
	removed, err := c.client.Unschedule(ctx, c.arguments[0])
	if err == nil && !removed {
		err = client.ErrNotFound
	}
	return c.onSchedule("removed", err)
}

func runSchedulePause(ctx context.Context, c *call) (reply, error) {
	return c.onSchedule("paused", c.client.PauseSchedule(ctx, c.arguments[0]))
}

func runScheduleResume(ctx context.Context, c *call) (reply, error) {
	return c.onSchedule("resumed", c.client.ResumeSchedule(ctx, c.arguments[0]))
}

func runScheduleRun(ctx context.Context, c *call) (reply, error) {
	id, err := c.client.RunNow(ctx, c.arguments[0])
	return reply{text: id, json: object("id", id)}, c.noSchedule(err)
}

var errNoSchedule = errors.New("no such schedule")

// noSchedule makes ErrNotFound name a schedule instead of a job.
func (c *call) noSchedule(err error) error {
	if errors.Is(err, client.ErrNotFound) {
		return fmt.Errorf("%s %q: %w", c.command.name, c.arguments[0], errNoSchedule)
	}
	return err
}

func (c *call) onSchedule(what string, err error) (reply, error) {
	name := c.arguments[0]
	return reply{text: what + " " + printable(name, ""), json: object("name", name, what, true)}, c.noSchedule(err)
}

func beginScheduleNext(f *flagSet) action {
	var zone string
	f.text("zone", &zone)
	return func(_ context.Context, c *call) (reply, error) { return nextOccurrences(c.arguments[0], zone) }
}

func zoneOf(name string) (*time.Location, error) {
	zone, err := cron.Zone(name)
	if err != nil {
		err = fail(exitUsage, fmt.Errorf("--zone %q: want the name of a time zone, such as Europe/Berlin, or UTC", name))
	}
	return zone, err
}

func nextOccurrences(cronText, zoneName string) (reply, error) {
	const occurrences = 10
	spec, err := cron.Parse(cronText)
	if err != nil {
		return reply{}, fail(exitUsage, err)
	}
	zone, err := zoneOf(zoneName)
	if err != nil {
		return reply{}, err
	}
	var lines []string
	var list []time.Time
	at := time.Now().Truncate(time.Millisecond).In(zone)
	for range occurrences {
		if at = spec.Next(at); at.IsZero() {
			break
		}
		lines, list = append(lines, at.Format(occurrenceFormat)), append(list, at)
	}
	return reply{text: strings.Join(lines, "\n"), json: view.Of("next", list), safe: true}, nil
}

func runScheduleList(ctx context.Context, c *call) (reply, error) {
	all, err := c.client.Schedules(ctx)
	return rowsOf("schedules", view.Schedules(all), "name", "cron", "zone", "topic", "next", "paused", "jobs", "late", "overlapped", "while_paused"), err
}
