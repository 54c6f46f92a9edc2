package api

import (
	"math"
	"time"

	"github.com/mix-basic/delayer/client"
)

const (
	// maxTopics is how many topics a reserve may name.
	maxTopics = 100
	// maxReserve is how many jobs a reserve may take.
	maxReserve = 250
)

type reservation struct {
	topics      optional[[]string]
	max         optional[int64]
	lease       optional[time.Duration]
	maxAttempts optional[int64]
}

func (r *reservation) fields() fields {
	f := fields{}
	f.texts("topics", &r.topics, maxTopics, maxTopic)
	f.integer("max", &r.max, 1, maxReserve)
	f.duration("lease", &r.lease, time.Millisecond, client.MaxLease)
	f.integer("max_attempts", &r.maxAttempts, 1, math.MaxInt32)
	return f
}

// reserve waits until there is a job.
func (a *api) reserve(c *call, r *reservation) (response, error) {
	wait, err := c.wait(a.MaxWait)
	if err == nil {
		err = r.topics.required("/topics")
	}
	if err != nil {
		return response{}, err
	}
	jobs, err := a.poller.Reserve(c.w, c.r, r.options(), wait)
	list := make([]object, len(jobs))
	for i, d := range jobs {
		list[i] = delivery(d)
	}
	done := ok(object{{"deliveries", list}})
	done.jobs = jobs
	return done, err
}

func (r *reservation) options() client.FetchOptions {
	o := client.FetchOptions{Max: 1, Lease: r.lease.value, MaxAttempts: int(r.maxAttempts.value)}
	if r.max.given {
		o.Max = int(r.max.value)
	}
	for _, topic := range r.topics.value {
		o.Topics = append(o.Topics, client.FetchTopic{Topic: topic})
	}
	return o
}

func delivery(d *client.Delivery) object {
	var o object
	o.text("id", d.ID)
	o.text("topic", d.Topic)
	o.put("token", d.Token)
	o.put("attempt", d.Attempt)
	if d.MaxAttempts > 0 {
		o.put("max_attempts", d.MaxAttempts)
	}
	o.lease(d)
	o.duration("late_by", d.LateBy)
	o.text("body", d.Body)
	return o
}

func (o *object) lease(d *client.Delivery) {
	o.duration("lease", d.Lease())
	o.time("deadline", d.Deadline())
}
