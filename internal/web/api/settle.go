package api

import (
	"errors"
	"math"
	"time"

	"github.com/mix-basic/delayer/client"
)

// held says what a job was reserved under.
type held struct {
	topic optional[string]
	token optional[int64]
}

func (h *held) fields() fields {
	f := fields{}
	f.text("topic", &h.topic, maxTopic)
	f.integer("token", &h.token, 1, math.MaxInt64)
	return f
}

// delivery is the one that the call is about.
func (a *api) delivery(c *call, h *held) (*client.Delivery, error) {
	err := h.check("")
	return a.client.Delivery(h.topic.value, c.id(), h.token.value), err
}

func (h *held) check(at pointer) error {
	if err := h.topic.required(at.member("topic")); err != nil {
		return err
	}
	return h.token.required(at.member("token"))
}

func (a *api) ack(c *call, h *held) (response, error) {
	d, err := a.delivery(c, h)
	if err == nil {
		err = d.Ack(c.context())
	}
	return done, err
}

type retrying struct {
	held
	delay optional[time.Duration]
	error string
}

func (r *retrying) fields() fields {
	f := r.held.fields()
	f.duration("delay", &r.delay, 0, client.MaxDelay)
	f.line("error", &r.error)
	return f
}

func (a *api) retry(c *call, r *retrying) (response, error) {
	d, err := a.delivery(c, &r.held)
	if err == nil {
		err = d.Retry(c.context(), r.delay.value, cause(r.error)...)
	}
	state := client.Waiting
	switch {
	case errors.Is(err, client.ErrExhausted):
		state, err = client.Dead, nil
	case r.delay.value == 0:
		state = client.Ready
	}
	return ok(object{{"state", state}}), err
}

func cause(text string) []client.RetryOption {
	if text == "" {
		return nil
	}
	return []client.RetryOption{client.Cause(errors.New(text))}
}

type releasing struct {
	held
	delay optional[time.Duration]
}

func (r *releasing) fields() fields {
	f := r.held.fields()
	f.duration("delay", &r.delay, 0, client.MaxDelay)
	return f
}

func (a *api) release(c *call, r *releasing) (response, error) {
	d, err := a.delivery(c, &r.held)
	switch {
	case err != nil:
	case r.delay.value > 0:
		err = d.Postpone(c.context(), r.delay.value)
	default:
		err = d.Release(c.context())
	}
	return done, err
}

type burying struct {
	held
	reason, error string
}

func (b *burying) fields() fields {
	f := b.held.fields()
	f.line("reason", &b.reason)
	f.line("error", &b.error)
	return f
}

func (a *api) bury(c *call, b *burying) (response, error) {
	d, err := a.delivery(c, &b.held)
	if err == nil {
		err = d.Bury(c.context(), b.reason, cause(b.error)...)
	}
	return done, err
}

type extending struct {
	held
	lease optional[time.Duration]
}

func (e *extending) fields() fields {
	f := e.held.fields()
	f.duration("lease", &e.lease, time.Millisecond, client.MaxLease)
	return f
}

func (a *api) extend(c *call, e *extending) (response, error) {
	d, err := a.delivery(c, &e.held)
	if err == nil {
		err = e.lease.required("/lease")
	}
	if err == nil {
		err = d.Extend(c.context(), e.lease.value)
	}
	var o object
	o.lease(d)
	return ok(o), err
}
