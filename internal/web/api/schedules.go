package api

import (
	"errors"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/cron"
	"github.com/mix-basic/delayer/internal/view"
)

// newSchedule are the fields of a schedule, except its name.
var newSchedule = join(line("cron"), line("zone"), text("topic", maxTopic), text("body", 0), maxAttempts,
	choice("missed", "once", "skip", "all"), choice("overlap", "allow", "skip", "follow"), period("jitter", 0, client.MaxDelay),
	period("ttr", time.Millisecond, client.MaxLease), period("ready_max_lifetime", time.Millisecond, client.MaxDelay))

// schedules answers with all schedules.
func (a *api) schedules(c *call) (response, error) {
	all, err := a.client.Schedules(c.context())
	return ok(view.Of("schedules", view.Schedules(all))), err
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
	o.Text("name", s.Name)
	o.Put("next", next)
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
	o.Text("id", id)
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
