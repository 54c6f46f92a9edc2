package api

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
)

// policies are the values of if_exists.
var policies = map[string]client.Existing{
	"replace":      client.Replace,
	"refuse":       client.Refuse,
	"keep_earlier": client.KeepEarlier,
	"keep_later":   client.KeepLater,
}

// checkJob finds what a new job lacks, or does not go together.
func checkJob(job values, at pointer) error {
	err := job.require(at, "topic", "body")
	if err == nil && job.has("due") && job.has("delay") {
		err = at.member("due").problem("delay is given, too: want one of the two")
	}
	return err
}

func message(job values) client.Message {
	return client.Message{ID: get[string](job, "id"), Topic: get[string](job, "topic"), Body: get[string](job, "body")}
}

// pushOptions are what a new job says beside message and time.
func pushOptions(job values) (list []client.PushOption) {
	if job.has("max_attempts") {
		list = append(list, client.MaxAttempts(int(get[int64](job, "max_attempts"))))
	}
	if job.has("ttr") {
		list = append(list, client.TTR(get[time.Duration](job, "ttr")))
	}
	if job.has("ready_max_lifetime") {
		list = append(list, client.ReadyMaxLifetime(get[time.Duration](job, "ready_max_lifetime")))
	}
	if job.has("if_exists") {
		list = append(list, client.IfExists(policies[get[string](job, "if_exists")]))
	}
	return list
}

func (a *api) push(c *call) (response, error) {
	err := checkJob(c.body, "")
	if err != nil {
		return response{}, err
	}
	m, id := message(c.body), ""
	if c.body.has("due") {
		id, err = a.client.PushAt(c.context(), m, get[time.Time](c.body, "due"), pushOptions(c.body)...)
	} else {
		id, err = a.client.Push(c.context(), m, get[time.Duration](c.body, "delay"), pushOptions(c.body)...)
	}
	if err != nil {
		return response{}, err
	}
	a.Pushed(m.Topic, 1)
	var o object
	o.text("id", id)
	made := ok(o)
	made.status = http.StatusCreated
	made.header = map[string]string{"Location": "/v1/jobs/" + escape(id)}
	return made, nil
}

// escape writes a value for a path. Dots would be taken for steps in it.
func escape(value string) string {
	escaped := url.PathEscape(value)
	if strings.Trim(escaped, ".") == "" {
		escaped = strings.ReplaceAll(escaped, ".", "%2E")
	}
	return escaped
}

func (a *api) get(c *call) (response, error) {
	job, err := a.client.Get(c.context(), c.id())
	if err != nil {
		return response{}, err
	}
	var o object
	o.text("id", job.ID)
	o.text("topic", job.Topic)
	o.put("state", job.State)
	o.time(timeNames[job.State], job.Due)
	o.duration("ttl", job.TTL)
	o.put("attempts", job.Attempts)
	if job.MaxAttempts > 0 {
		o.put("max_attempts", job.MaxAttempts)
	}
	o.textIfAny("reason", job.Reason)
	o.textIfAny("error", job.Error)
	o.text("body", job.Body)
	return ok(o), nil
}

// timeNames say what a job's time is.
var timeNames = map[client.State]string{client.Waiting: "due", client.Reserved: "lease_ends", client.Dead: "died"}

func (a *api) remove(c *call) (response, error) {
	removed, err := a.client.Remove(c.context(), c.id())
	if err == nil && !removed {
		err = client.ErrNotFound
	}
	return done, err
}

func (a *api) reschedule(c *call) (response, error) {
	if err := c.body.require("", "delay"); err != nil {
		return response{}, err
	}
	return done, a.client.Reschedule(c.context(), c.id(), get[time.Duration](c.body, "delay"))
}
