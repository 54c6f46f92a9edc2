package api

import (
	"errors"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/cron"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/view"
)

// newSchedule are the fields of a schedule, except its name.
var newSchedule = join(required(line("cron"), text("topic", maxTopic), text("body", 0)), line("zone"), headers, maxAttempts,
	choice("missed", "once", "skip", "all"), choice("overlap", "allow", "skip", "follow"), period("jitter", 0, store.MaxDelay),
	period("lease", time.Millisecond, store.MaxLease), period("expire_after", time.Millisecond, store.MaxDelay))

func (c *call) schedules() (any, error) {
	all, err := c.client.Schedules().List(c.context())
	return view.Of("schedules", view.Schedules(all)), err
}

func (c *call) setSchedule() (any, error) {
	s := client.Schedule{
		Name: c.name(), Cron: get[string](c.body, "cron"), Zone: get[string](c.body, "zone"), Topic: get[string](c.body, "topic"), Body: get[string](c.body, "body"),
		Headers: get[map[string]string](c.body, "headers"), Missed: get[string](c.body, "missed"), Overlap: get[string](c.body, "overlap"), Jitter: get[time.Duration](c.body, "jitter"),
		Options: jobOptionsOf(c.body),
	}
	if _, err := cron.Parse(s.Cron); err != nil {
		return nil, invalid.field("/cron", "%v", err)
	}
	if _, err := cron.Zone(s.Zone); err != nil {
		return nil, invalid.field("/zone", "%v", err)
	}
	next, err := c.client.Schedules().Set(c.context(), s)
	return view.Of("name", s.Name, "next", next), err
}

func (c *call) removeSchedule() (any, error) {
	was, err := c.client.Schedules().Remove(c.context(), c.name())
	if err == nil && !was {
		err = client.ErrNotFound
	}
	return nil, scheduleProblem(err)
}

func (c *call) pauseSchedule() (any, error) {
	if get[bool](c.body, "paused") {
		return nil, scheduleProblem(c.client.Schedules().Pause(c.context(), c.name()))
	}
	return nil, scheduleProblem(c.client.Schedules().Resume(c.context(), c.name()))
}

func (c *call) runSchedule() (any, error) {
	id, err := c.client.Schedules().Run(c.context(), c.name())
	return view.Of("id", id), scheduleProblem(err)
}

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
