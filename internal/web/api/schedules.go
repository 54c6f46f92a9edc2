package api

import (
	"errors"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/cron"
)

// newSchedule are the fields of a schedule, except its name.
var newSchedule = join(line("cron"), line("zone"), text("topic", maxTopic), text("body", 0), maxAttempts,
	choice("missed", "once", "skip", "all"), choice("overlap", "allow", "skip", "follow"), period("jitter", 0, client.MaxDelay),
	period("ttr", time.Millisecond, client.MaxLease), period("ready_max_lifetime", time.Millisecond, client.MaxDelay))

// schedules answers with all schedules.
func (a *api) schedules(c *call) (response, error) {
	all, err := a.client.Schedules(c.context())
	list := make([]object, len(all))
	for i, s := range all {
		list[i] = scheduled(s)
	}
	return ok(object{{"schedules", list}}), err
}

func scheduled(s client.Scheduled) object {
	var o object
	o.text("name", s.Name)
	o.put("cron", cron.Text(s.Cron, s.Every))
	o.put("zone", s.Zone)
	o.text("topic", s.Topic)
	o.text("body", s.Body)
	o.put("missed", s.Missed)
	o.put("overlap", s.Overlap)
	o.put("jitter", s.Jitter)
	if s.MaxAttempts > 0 {
		o.put("max_attempts", s.MaxAttempts)
	}
	if s.TTR > 0 {
		o.put("ttr", s.TTR)
	}
	o.put("ready_max_lifetime", s.ReadyMaxLifetime)
	o.textIfAny("owner", s.Owner)
	o.put("next", s.Next)
	o.put("paused", s.Paused)
	o.textIfAny("last_id", s.LastID)
	o.put("jobs", s.Jobs)
	o.put("late", s.Late)
	o.put("overlapped", s.Overlapped)
	o.put("while_paused", s.WhilePaused)
	past := make([]object, len(s.Past))
	for i, m := range s.Past {
		past[i].put("at", m.At)
		past[i].put("what", m.Result)
		past[i].put("late", m.Late)
	}
	o.put("past", past)
	return o
}

func (a *api) schedule(c *call) (response, error) {
	if err := c.body.require("", "cron", "topic", "body"); err != nil {
		return response{}, err
	}
	s := client.Schedule{
		Name: c.name(), Cron: get[string](c.body, "cron"), Zone: get[string](c.body, "zone"), Topic: get[string](c.body, "topic"), Body: get[string](c.body, "body"),
		Missed: client.Missed(get[string](c.body, "missed")), Overlap: client.Overlap(get[string](c.body, "overlap")), Jitter: get[time.Duration](c.body, "jitter"),
	}
	for name, option := range map[string]client.PushOption{
		"max_attempts": client.MaxAttempts(int(get[int64](c.body, "max_attempts"))), "ttr": client.TTR(get[time.Duration](c.body, "ttr")),
		"ready_max_lifetime": client.ReadyMaxLifetime(get[time.Duration](c.body, "ready_max_lifetime")),
	} {
		if c.body.has(name) {
			s.Options = append(s.Options, option)
		}
	}
	if _, err := cron.Parse(s.Cron); err != nil {
		return response{}, pointer("").member("cron").problem("%v", err)
	}
	if _, err := cron.Zone(s.Zone); err != nil {
		return response{}, pointer("").member("zone").problem("%v", err)
	}
	next, err := a.client.Schedule(c.context(), s)
	var o object
	o.text("name", s.Name)
	o.put("next", next)
	return ok(o), err
}

func (a *api) unschedule(c *call) (response, error) {
	was, err := a.client.Unschedule(c.context(), c.name())
	if err == nil && !was {
		err = client.ErrNotFound
	}
	return done, scheduleProblem(err)
}

func (a *api) pauseSchedule(c *call) (response, error) {
	if err := c.body.require("", "paused"); err != nil {
		return response{}, err
	}
	if get[bool](c.body, "paused") {
		return done, scheduleProblem(a.client.PauseSchedule(c.context(), c.name()))
	}
	return done, scheduleProblem(a.client.ResumeSchedule(c.context(), c.name()))
}

func (a *api) runSchedule(c *call) (response, error) {
	id, err := a.client.RunNow(c.context(), c.name())
	var o object
	o.text("id", id)
	return ok(o), scheduleProblem(err)
}

func (c *call) name() string { return c.path["name"] }

// scheduleProblem maps an unknown schedule and an invalid name to problems.
func scheduleProblem(err error) error {
	switch {
	case errors.Is(err, client.ErrNotFound):
		return notFound.problem("there is no such schedule")
	case errors.Is(err, client.ErrInvalid):
		return invalid.parameter("name", "want no braces and no control characters")
	}
	return err
}
