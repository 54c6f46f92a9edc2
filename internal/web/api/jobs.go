package api

import (
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
)

// maxBatch is how many jobs a request is for at most.
const maxBatch = 1000

// newJob is a job to be pushed.
type newJob struct {
	id, topic, body optional[string]
	delay           optional[time.Duration]
	due             optional[time.Time]
	maxAttempts     optional[int64]
	ttr, lifetime   optional[time.Duration]
	ifExists        optional[string]
}

// policies are the values of if_exists.
var policies = map[string]client.Existing{
	"replace":      client.Replace,
	"refuse":       client.Refuse,
	"keep_earlier": client.KeepEarlier,
	"keep_later":   client.KeepLater,
}

func (j *newJob) fields() fields {
	f := fields{}
	f.text("id", &j.id, maxID)
	f.text("topic", &j.topic, maxTopic)
	f.text("body", &j.body, 0)
	f.duration("delay", &j.delay, 0, client.MaxDelay)
	f.time("due", &j.due, client.MaxDelay)
	f.integer("max_attempts", &j.maxAttempts, 1, math.MaxInt32)
	f.duration("ttr", &j.ttr, time.Millisecond, client.MaxLease)
	f.duration("ready_max_lifetime", &j.lifetime, time.Millisecond, client.MaxDelay)
	f.choice("if_exists", &j.ifExists, "replace", "refuse", "keep_earlier", "keep_later")
	return f
}

// check finds what is missing, or does not go together.
func (j *newJob) check(at pointer) error {
	if err := j.topic.required(at.member("topic")); err != nil {
		return err
	}
	if err := j.body.required(at.member("body")); err != nil {
		return err
	}
	if j.due.given && j.delay.given {
		return at.member("due").problem("delay is given, too: want one of the two")
	}
	return nil
}

func (j *newJob) message() client.Message {
	return client.Message{ID: j.id.value, Topic: j.topic.value, Body: j.body.value}
}

// options are what the push says beside message and time.
func (j *newJob) options() (list []client.PushOption) {
	if j.maxAttempts.given {
		list = append(list, client.MaxAttempts(int(j.maxAttempts.value)))
	}
	if j.ttr.given {
		list = append(list, client.TTR(j.ttr.value))
	}
	if j.lifetime.given {
		list = append(list, client.ReadyMaxLifetime(j.lifetime.value))
	}
	if j.ifExists.given {
		list = append(list, client.IfExists(policies[j.ifExists.value]))
	}
	return list
}

func (a *api) push(c *call, j *newJob) (response, error) {
	if err := j.check(""); err != nil {
		return response{}, err
	}
	var id string
	var err error
	if j.due.given {
		id, err = a.client.PushAt(c.context(), j.message(), j.due.value, j.options()...)
	} else {
		id, err = a.client.Push(c.context(), j.message(), j.delay.value, j.options()...)
	}
	if err != nil {
		return response{}, err
	}
	a.Pushed(j.topic.value, 1)
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

type rescheduling struct{ delay optional[time.Duration] }

func (r *rescheduling) fields() fields {
	f := fields{}
	f.duration("delay", &r.delay, 0, client.MaxDelay)
	return f
}

func (a *api) reschedule(c *call, r *rescheduling) (response, error) {
	if err := r.delay.required("/delay"); err != nil {
		return response{}, err
	}
	return done, a.client.Reschedule(c.context(), c.id(), r.delay.value)
}
