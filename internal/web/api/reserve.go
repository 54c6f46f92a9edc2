package api

import (
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/view"
)

const (
	// maxTopics is the maximum number of topics per reserve.
	maxTopics = 100
	// maxReserve is the maximum number of jobs per reserve.
	maxReserve = 250
)

// reserve answers with jobs as soon as there are any.
func (a *api) reserve(c *call) (response, error) {
	wait, err := c.wait(a.MaxWait)
	if err == nil {
		err = c.body.require("", "topics")
	}
	if err != nil {
		return response{}, err
	}
	o := client.FetchOptions{Max: max(1, int(get[int64](c.body, "max"))), Lease: get[time.Duration](c.body, "lease"), MaxAttempts: int(get[int64](c.body, "max_attempts"))}
	jobs, err := a.poller.Reserve(c.w, c.r, get[[]string](c.body, "topics"), o, wait)
	list := make([]object, len(jobs))
	for i, d := range jobs {
		list[i] = delivery(d)
	}
	done := ok(view.Of("deliveries", list))
	done.jobs = jobs
	return done, err
}

func delivery(d *client.Delivery) object {
	var o object
	o.Text("id", d.ID)
	o.Text("topic", d.Topic)
	o.Put("token", d.Token)
	o.Put("attempt", d.Attempt)
	if d.MaxAttempts > 0 {
		o.Put("max_attempts", d.MaxAttempts)
	}
	putLease(&o, d)
	o.Put("late_by", d.LateBy)
	o.Text("body", d.Body)
	return o
}

func putLease(o *object, d *client.Delivery) {
	o.Put("lease", d.Lease())
	o.Put("deadline", d.Deadline())
}
