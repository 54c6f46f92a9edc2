package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/cron"
)

const (
	zoneOption = "--zone ZONE -- the time zone of SPEC, such as Europe/Berlin; UTC if not given\n"
	specNote   = "SPEC is five fields as in crontab(5) in one argument, '0 7 * * mon-fri', or '@every 90s', @hourly, @daily, @weekly, @monthly, @yearly.\n" +
		"A day of the month may be L, LW or 15W, a day of the week 5#2 (the second Friday) or 5L (the last).\n"
	momentFormat = "2006-01-02T15:04:05.999Z07:00"
)

// scheduleCommands are about schedules.
func scheduleCommands() []command {
	return []command{
		{name: "schedule add", arguments: "NAME SPEC TOPIC BODY", least: 4, most: 4, run: runScheduleAdd,
			help: "have a job pushed at each moment of SPEC, or change the schedule of that name, and print its next moment; a BODY of - reads standard input",
			flags: func(f *flag.FlagSet, o *options) {
				f.Func("zone", "", setOnce(&o.zone, "a time zone's name"))
				f.Func("missed", "", setOneOf(&o.missed, client.MissedOnce, client.MissedSkip, client.MissedAll))
				f.Func("overlap", "", setOneOf(&o.overlap, client.OverlapAllow, client.OverlapSkip, client.OverlapFollow))
				f.Func("jitter", "", setDuration(&o.jitter, maxTime))
				f.Func("ttr", "", setDuration(&o.ttr, maxLease))
				f.Func("max-attempts", "", setNumber(&o.maxAttempts, math.MaxInt32))
			},
			options: zoneOption +
				"--missed CHOICE -- what becomes of moments that no server saw in time: once, one job at once, if not given; skip, none; all, the last 100\n" +
				"--overlap CHOICE -- what becomes of a moment while the job before is not done: allow, it has its job, if not given; skip, none; follow, the newest is delivered when that is done\n" +
				"--jitter D -- delay each job by D at most\n" +
				"--ttr D -- the lease of a consumer who reserves a job and names none, up to 24h; 30s if not given\n" +
				"--max-attempts N -- how often a job is tried before it becomes a dead letter\n",
			note: specNote},
		{name: "schedule list", run: runScheduleList,
			help: "list all schedules: name, when they are due, zone, topic, next moment, last moment and what became of it, jobs, moments without a job"},
		{name: "schedule remove", arguments: "NAME", least: 1, most: 1, run: runScheduleRemove,
			help: "delete a schedule; its jobs stay"},
		{name: "schedule pause", arguments: "NAME", least: 1, most: 1, run: runSchedulePause,
			help: "have a schedule's moments pass without jobs, until it is resumed"},
		{name: "schedule resume", arguments: "NAME", least: 1, most: 1, run: runScheduleResume,
			help: "have a schedule go on that was paused"},
		{name: "schedule run", arguments: "NAME", least: 1, most: 1, run: runScheduleRun,
			help: "push a job of a schedule now, and print its ID; its moments stay what they are"},
		{name: "schedule next", arguments: "SPEC", least: 1, most: 1, run: runScheduleNext, local: true,
			help: "print the next ten moments of SPEC, by this machine's clock; no Redis is asked",
			flags: func(f *flag.FlagSet, o *options) {
				f.Func("zone", "", setOnce(&o.zone, "a time zone's name"))
			},
			options: zoneOption, note: specNote},
	}
}

func runScheduleAdd(ctx context.Context, c *call) (reply, error) {
	s := client.Schedule{Name: c.arguments[0], Cron: c.arguments[1], Zone: c.zone, Topic: c.arguments[2], Body: c.arguments[3],
		Missed: c.missed, Overlap: c.overlap, Jitter: c.jitter}
	if s.Body == "-" {
		body, err := readInput(ctx)
		if err != nil {
			return reply{}, err
		}
		s.Body = body
	}
	if c.ttr > 0 {
		s.Options = append(s.Options, client.TTR(c.ttr))
	}
	if c.maxAttempts > 0 {
		s.Options = append(s.Options, client.MaxAttempts(c.maxAttempts))
	}
	next, err := c.client.Schedule(ctx, s)
	v := map[string]any{"next": next}
	put(v, "name", s.Name)
	return reply{text: next.Format(momentFormat), json: v}, err
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

func runScheduleNext(_ context.Context, c *call) (reply, error) {
	const moments = 10
	spec, err := cron.Parse(c.arguments[0])
	if err != nil {
		return reply{}, fail(exitUsage, err)
	}
	zone, err := cron.Zone(c.zone)
	if err != nil {
		return reply{}, fail(exitUsage, fmt.Errorf("--zone %q: %w", c.zone, err))
	}
	var lines []string
	var list []time.Time
	at := time.Now().Truncate(time.Millisecond).In(zone)
	for range moments {
		if at = spec.Next(at); at.IsZero() {
			break
		}
		lines, list = append(lines, at.Format(momentFormat)), append(list, at)
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
			next = s.Next.In(zone).Format(momentFormat)
		}
		if !s.Paused.IsZero() {
			next = "paused"
		}
		if n := len(s.Past); n > 0 {
			last = fmt.Sprintf("%s %s", s.Past[n-1].At.In(zone).Format(momentFormat), s.Past[n-1].Result)
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
