package api

import (
	"errors"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/view"
)

const (
	// maxTopics is the maximum number of topics per reserve.
	maxTopics = 100
	// maxReserve is the maximum number of jobs per reserve.
	maxReserve = 250
)

// reserve answers with jobs as soon as there are any.
func (c *call) reserve() (any, error) {
	wait, err := c.wait()
	if err != nil {
		return nil, err
	}
	o := client.FetchOptions{Max: max(1, int(get[int64](c.body, "max"))), Lease: get[time.Duration](c.body, "lease"), MaxAttempts: int(get[int64](c.body, "max_attempts"))}
	jobs, err := c.poller.Reserve(c.w, c.r, get[[]string](c.body, "topics"), o, wait)
	list := make([]object, len(jobs))
	for i, d := range jobs {
		list[i] = delivered(d)
	}
	answer := responseOf(view.Of("deliveries", list))
	answer.jobs = jobs
	return answer, err
}

// wait returns how long the client wants to wait.
func (c *call) wait() (time.Duration, error) {
	d, err := duration.Parse(get[string](c.query, "wait"))
	if err != nil || d < 0 || d > c.MaxWait {
		return 0, invalid.parameter("wait", "want %s, from 0 to %v", durations, duration.Format(c.MaxWait))
	}
	return d, nil
}

func delivered(d *client.Delivery) object {
	o := view.Of("id", d.ID, "topic", d.Topic, "token", d.Token, "attempt", d.Attempt)
	if d.MaxAttempts > 0 {
		o.Put("max_attempts", d.MaxAttempts)
	}
	o = append(o, leaseOf(d)...)
	o.Put("late_by", d.LateBy)
	o.Headers(d.Headers)
	o.Put("body", d.Body)
	return o
}

func leaseOf(d *client.Delivery) object { return view.Of("lease", d.Lease(), "deadline", d.Deadline()) }

// delivery returns the delivery of a reserved job.
func (c *call) delivery(id string, reference values) *client.Delivery {
	return c.client.Delivery(get[string](reference, "topic"), id, get[int64](reference, "token"))
}

// settle returns a handler that settles the delivery that the request names.
func settle(how func(*call, *client.Delivery) (any, error)) func(*call) (any, error) {
	return func(c *call) (any, error) { return how(c, c.delivery(c.id(), c.body)) }
}

func ack(c *call, d *client.Delivery) (any, error) { return nil, d.Ack(c.context()) }

func retry(c *call, d *client.Delivery) (any, error) {
	delay := get[time.Duration](c.body, "delay")
	err := d.Retry(c.context(), delay, c.cause())
	state := client.StateWaiting
	switch {
	case errors.Is(err, client.ErrExhausted):
		state, err = client.StateDead, nil
	case delay == 0:
		state = client.StateReady
	}
	return view.Of("state", state), err
}

// cause returns the error given in the body, if any.
func (c *call) cause() error {
	if text := get[string](c.body, "error"); text != "" {
		return errors.New(text)
	}
	return nil
}

func release(c *call, d *client.Delivery) (any, error) {
	return nil, d.Release(c.context(), get[time.Duration](c.body, "delay"))
}

func bury(c *call, d *client.Delivery) (any, error) {
	return nil, d.Bury(c.context(), c.cause())
}

func extend(c *call, d *client.Delivery) (any, error) {
	err := d.Extend(c.context(), get[time.Duration](c.body, "lease"))
	return leaseOf(d), err
}
