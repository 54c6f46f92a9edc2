package api

import (
	"errors"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/view"
)

// delivery returns the delivery of a reserved job.
func (a *api) delivery(id string, reference values) *client.Delivery {
	return a.client.Delivery(get[string](reference, "topic"), id, get[int64](reference, "token"))
}

// settle wraps how: it finds the delivery named by the request and settles it.
func settle(how func(*call, *client.Delivery) (response, error)) func(*api, *call) (response, error) {
	return func(a *api, c *call) (response, error) {
		if err := c.body.require("", "topic", "token"); err != nil {
			return response{}, err
		}
		return how(c, a.delivery(c.id(), c.body))
	}
}

func ack(c *call, d *client.Delivery) (response, error) { return done, d.Ack(c.context()) }

func retry(c *call, d *client.Delivery) (response, error) {
	delay := get[time.Duration](c.body, "delay")
	err := d.Retry(c.context(), delay, c.cause()...)
	state := client.Waiting
	switch {
	case errors.Is(err, client.ErrExhausted):
		state, err = client.Dead, nil
	case delay == 0:
		state = client.Ready
	}
	return ok(view.Of("state", state)), err
}

// cause returns the error given in the body, if any.
func (c *call) cause() []client.RetryOption {
	text := get[string](c.body, "error")
	if text == "" {
		return nil
	}
	return []client.RetryOption{client.Cause(errors.New(text))}
}

func release(c *call, d *client.Delivery) (response, error) {
	if delay := get[time.Duration](c.body, "delay"); delay > 0 {
		return done, d.Snooze(c.context(), delay)
	}
	return done, d.Release(c.context())
}

func bury(c *call, d *client.Delivery) (response, error) {
	return done, d.Bury(c.context(), get[string](c.body, "reason"), c.cause()...)
}

func extend(c *call, d *client.Delivery) (response, error) {
	err := c.body.require("", "lease")
	if err == nil {
		err = d.Extend(c.context(), get[time.Duration](c.body, "lease"))
	}
	var o object
	putLease(&o, d)
	return ok(o), err
}
