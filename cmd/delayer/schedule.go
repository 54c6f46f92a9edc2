package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/cron"
)

const occurrenceFormat = "2006-01-02T15:04:05.999Z07:00"

func beginScheduleAdd(f *flagSet) action {
	var s client.Schedule
	var ttr time.Duration
	var maxAttempts int
	f.text("zone", &s.Zone)
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
		s.Options = jobTerms(ttr, maxAttempts)
		next, err := c.client.Schedule(ctx, s)
		v := map[string]any{"next": next}
		put(v, "name", s.Name)
		return reply{text: next.Format(occurrenceFormat), json: v}, err
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
	return reply{text: id, json: idJSON(id)}, c.noSchedule(err)
}

var errNoSchedule = errors.New("no such schedule")

// noSchedule says that it is a schedule that there is none of, and not a job.
func (c *call) noSchedule(err error) error {
	if errors.Is(err, client.ErrNotFound) {
		return fmt.Errorf("%s %q: %w", c.command.name, c.arguments[0], errNoSchedule)
	}
	return err
}

func (c *call) onSchedule(what string, err error) (reply, error) {
	name, v := c.arguments[0], map[string]any{what: true}
	put(v, "name", name)
	return reply{text: what + " " + printable(name, ""), json: v}, c.noSchedule(err)
}

func beginScheduleNext(f *flagSet) action {
	var zone string
	f.text("zone", &zone)
	return func(_ context.Context, c *call) (reply, error) { return nextOccurrences(c.arguments[0], zone) }
}

func nextOccurrences(cronText, zoneName string) (reply, error) {
	const occurrences = 10
	spec, err := cron.Parse(cronText)
	if err != nil {
		return reply{}, fail(exitUsage, err)
	}
	zone, err := cron.Zone(zoneName)
	if err != nil {
		return reply{}, fail(exitUsage, fmt.Errorf("--zone %q: %w", zoneName, err))
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
	return reply{text: strings.Join(lines, "\n"), json: map[string]any{"next": list}, safe: true}, nil
}

func runScheduleList(ctx context.Context, c *call) (reply, error) {
	all, err := c.client.Schedules(ctx)
	if err != nil {
		return reply{}, err
	}
	t := newTable(0, "name", "when", "zone", "topic", "next", "last", "jobs", "without")
	list := make([]map[string]any, len(all))
	for i, s := range all {
		next, last := "-", "-"
		zone, err := cron.Zone(s.Zone)
		if err != nil {
			zone = time.UTC
		}
		if !s.Next.IsZero() {
			next = s.Next.In(zone).Format(occurrenceFormat)
		}
		if !s.Paused.IsZero() {
			next = "paused"
		}
		if n := len(s.Past); n > 0 {
			last = fmt.Sprintf("%s %s", s.Past[n-1].At.In(zone).Format(occurrenceFormat), s.Past[n-1].Result)
		}
		t.row(printable(s.Name, ""), cron.Short(cron.Text(s.Cron, s.Every)), s.Zone, printable(s.Topic, ""), next, last,
			strconv.FormatInt(s.Jobs, 10), strconv.FormatInt(s.Late+s.Overlapped+s.WhilePaused, 10))
		list[i] = scheduleJSON(s)
	}
	return reply{text: t.String(), json: map[string]any{"schedules": list}, safe: true}, nil
}

func scheduleJSON(s client.Scheduled) map[string]any {
	past := make([]map[string]any, len(s.Past))
	for i, m := range s.Past {
		past[i] = map[string]any{"at": m.At.UTC(), "what": m.Result, "late": m.Late.Seconds()}
	}
	v := map[string]any{
		"cron": cron.Text(s.Cron, s.Every), "zone": s.Zone, "missed": s.Missed, "overlap": s.Overlap, "jitter": s.Jitter.Seconds(),
		"ready_max_lifetime": s.ReadyMaxLifetime.Seconds(), "jobs": s.Jobs,
		"late": s.Late, "overlapped": s.Overlapped, "while_paused": s.WhilePaused, "past": past,
	}
	put(v, "name", s.Name)
	put(v, "topic", s.Topic)
	put(v, "body", s.Body)
	if s.MaxAttempts > 0 {
		v["max_attempts"] = s.MaxAttempts
	}
	if s.TTR > 0 {
		v["ttr"] = s.TTR.Seconds()
	}
	putIfAny(v, "owner", s.Owner)
	putIfAny(v, "last_id", s.LastID)
	if !s.Next.IsZero() {
		v["next"] = s.Next.UTC()
	}
	if !s.Paused.IsZero() {
		v["paused"] = s.Paused.UTC()
	}
	return v
}
