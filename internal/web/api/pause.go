package api

import (
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/view"
)

func (a *api) pause(c *call) (response, error) {
	note := get[string](c.body, "note")
	if err := store.CheckSize(note, store.MaxNote); err != nil {
		return response{}, invalid.field("/note", "%v", err)
	}
	return done, a.client.Pause(c.context(), c.topic(), client.PauseOptions{For: get[time.Duration](c.body, "for"), Note: note})
}

func (a *api) backOff(c *call) (response, error) {
	if err := c.body.require("", "for"); err != nil {
		return response{}, err
	}
	return done, a.client.BackOff(c.context(), c.topic(), get[time.Duration](c.body, "for"))
}

func (a *api) resume(c *call) (response, error) {
	was, err := a.client.Resume(c.context(), c.topic())
	return ok(view.Of("was_paused", was)), err
}

func (a *api) paused(c *call) (response, error) {
	pauses, err := a.inspector.Paused(c.context())
	return ok(view.Of("paused", view.Paused(pauses))), err
}
