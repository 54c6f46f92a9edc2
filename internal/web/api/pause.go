package api

import (
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
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
	return ok(object{{"was_paused", was}}), err
}

func (a *api) paused(c *call) (response, error) {
	pauses, err := a.inspector.Paused(c.context())
	list := make([]object, len(pauses))
	for i, p := range pauses {
		list[i].text("topic", p.Topic)
		list[i] = append(list[i], pauseOf(p)...)
	}
	return ok(object{{"paused", list}}), err
}

// pauseOf is the JSON of a topic's pause.
func pauseOf(p store.Pause) (o object) {
	o.put("since", p.Since)
	o.put("until", p.Until)
	o.textIfAny("note", p.Note)
	o.put("backed_off_since", p.BackedOffSince)
	o.put("backed_off_until", p.BackedOffUntil)
	return o
}
