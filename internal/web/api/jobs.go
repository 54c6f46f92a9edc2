package api

import (
	"cmp"
	"errors"
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
	"follow":       client.Follow,
}

// checkJob finds what a new job lacks, or does not go together.
func checkJob(job values, at pointer) error {
	if err := job.require(at, "topic", "body"); err != nil {
		return err
	}
	for _, rule := range []struct {
		broken     bool
		field, why string
	}{
		{job.has("due") && job.has("delay"), "due", "delay is given, too: want one of the two"},
		{job.has("replicas_timeout") && !job.has("replicas"), "replicas_timeout", "it means nothing without replicas"},
		{job.has("once") && !job.has("id"), "once", "it means nothing without id"},
		{job.has("once") && job.has("if_exists"), "if_exists", "it means nothing where a push counts once"},
		{job.has("once") && job.has("debounce"), "debounce", "it means nothing where a push counts once"},
		{job.has("debounce") && !job.has("id"), "debounce", "it means nothing without id"},
		{job.has("debounce") && job.has("if_exists"), "debounce", "if_exists is given, too: want one of the two"},
		{!job.has("group") && job.has("group_max"), "group_max", "it means nothing without group"},
		{!job.has("group") && job.has("group_quiet"), "group_quiet", "it means nothing without group"},
		{!job.has("group") && job.has("group_longest"), "group_longest", "it means nothing without group"},
		{job.has("group") && !job.has("group_quiet", "group_longest"), "group", "group_quiet and group_longest are missing: want one of the two, or both"},
		{job.has("group") && job.has("delay"), "delay", "it means nothing with group"},
		{job.has("group") && job.has("due"), "due", "it means nothing with group"},
		{job.has("group") && job.has("if_exists"), "if_exists", "it means nothing with group"},
		{job.has("group") && job.has("debounce"), "debounce", "it means nothing with group"},
		{job.has("group") && job.has("id") && !job.has("once"), "id", "it means nothing with group, but with once"},
	} {
		if rule.broken {
			return at.member(rule.field).problem("%s", rule.why)
		}
	}
	return nil
}

// delayed is the new job as the client takes it.
func delayed(job values) client.Delayed {
	d := client.Delayed{
		Message: client.Message{ID: get[string](job, "id"), Topic: get[string](job, "topic"), Body: get[string](job, "body")},
		Delay:   get[time.Duration](job, "delay"),
		At:      get[time.Time](job, "due"),
	}
	option := func(name string, o client.PushOption) {
		if job.has(name) {
			d.Options = append(d.Options, o)
		}
	}
	option("max_attempts", client.MaxAttempts(int(get[int64](job, "max_attempts"))))
	option("ttr", client.TTR(get[time.Duration](job, "ttr")))
	option("ready_max_lifetime", client.ReadyMaxLifetime(get[time.Duration](job, "ready_max_lifetime")))
	option("replicas", client.Replicas(int(get[int64](job, "replicas")), cmp.Or(get[time.Duration](job, "replicas_timeout"), time.Second)))
	option("if_exists", client.IfExists(policies[get[string](job, "if_exists")]))
	option("once", client.Once(get[time.Duration](job, "once")))
	option("group", client.Group(get[string](job, "group"), client.GroupOptions{
		Max: int(get[int64](job, "group_max")), Quiet: get[time.Duration](job, "group_quiet"), Longest: get[time.Duration](job, "group_longest"),
	}))
	option("debounce", client.IfExists(client.Debounce(get[time.Duration](job, "debounce"))))
	return d
}

func (a *api) push(c *call) (response, error) {
	keyed, err := c.withKey()
	if err == nil {
		err = checkJob(c.body, "")
	}
	if err != nil {
		return response{}, err
	}
	job, id := delayed(c.body), ""
	var did client.Outcome
	job.Options = append(job.Options, client.Report(&did))
	if keyed {
		job.Options = append(job.Options, client.OnceAs(get[time.Duration](c.body, "once"), contentOf(c.body)))
	}
	if job.At.IsZero() {
		id, err = a.client.Push(c.context(), job.Message, job.Delay, job.Options...)
	} else {
		id, err = a.client.PushAt(c.context(), job.Message, job.At, job.Options...)
	}
	if isStored(err) {
		a.Pushed(job.Topic, 1)
	}
	status := http.StatusCreated
	switch {
	case err == nil:
	case did != client.Refused:
		return response{}, err
	case keyed && !errors.Is(err, client.ErrReused): // it is a repetition, which is to be told what the first one was, or would have been
		status = http.StatusOK
	default:
		refused := problemOf(err)
		refused.id = job.ID
		if keyed {
			refused.Parameter = IdempotencyKey
		}
		return response{}, refused
	}
	var o object
	o.text("id", id)
	o.put("outcome", did)
	made := ok(o)
	made.status = status
	made.header = map[string]string{"Location": "/v1/jobs/" + escape(id)}
	return made, nil
}

// isStored reports whether a push has stored its job.
func isStored(err error) bool { return err == nil || errors.As(err, new(*client.ReplicasError)) }

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
	o.put(timeNames[job.State], job.Due)
	o.put("ttl", job.TTL)
	o.put("attempts", job.Attempts)
	if job.MaxAttempts > 0 {
		o.put("max_attempts", job.MaxAttempts)
	}
	if job.Followed {
		o.put("followed", true)
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
