package api

import (
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/view"
)

// maxBatch is the maximum number of jobs per request.
const maxBatch = 1000

// batch returns the jobs in that field after check has accepted each and no ID occurs twice. noun is what
// messages call one of them.
func (c *call) batch(name, noun string, check func(job values, at pointer) error) ([]values, error) {
	err := c.body.require("", name)
	jobs, first := get[[]values](c.body, name), map[string]int{}
	for i := 0; i < len(jobs) && err == nil; i++ {
		at, id := pointer("/"+name).at(i), get[string](jobs[i], "id")
		err = check(jobs[i], at)
		if n, twice := first[id]; err == nil && twice {
			err = at.member("id").problem("it is that of %s %d, too", noun, n)
		}
		if id != "" {
			first[id] = i
		}
	}
	return jobs, err
}

func (a *api) pushBatch(c *call) (response, error) {
	if len(c.r.Header.Values(IdempotencyKey)) > 0 {
		return response{}, invalid.parameter(IdempotencyKey, "a batch has none: give each job an id, and once")
	}
	jobs, err := c.batch("jobs", "job", checkJob)
	if err != nil {
		return response{}, err
	}
	list := make([]client.Delayed, len(jobs))
	for i, job := range jobs {
		list[i] = delayed(job)
	}
	results, err := a.client.PushBatch(c.context(), list)
	stored := map[string]int{}
	for i, result := range results {
		if isStored(result.Err) {
			stored[list[i].Topic]++
		}
	}
	for topic, n := range stored {
		a.Pushed(topic, n)
	}
	return a.results(results, err, nil)
}

// deliveries returns the deliveries that the body names.
func (a *api) deliveries(c *call) ([]*client.Delivery, error) {
	jobs, err := c.batch("deliveries", "delivery", func(job values, at pointer) error { return job.require(at, "id", "topic", "token") })
	list := make([]*client.Delivery, len(jobs))
	for i, job := range jobs {
		list[i] = a.delivery(get[string](job, "id"), job)
	}
	return list, err
}

func (a *api) ackBatch(c *call) (response, error) {
	deliveries, err := a.deliveries(c)
	if err != nil {
		return response{}, err
	}
	results, err := a.client.AckBatch(c.context(), deliveries)
	return a.results(results, err, nil)
}

func (a *api) extendBatch(c *call) (response, error) {
	deliveries, err := a.deliveries(c)
	if err == nil {
		err = c.body.require("", "lease")
	}
	if err != nil {
		return response{}, err
	}
	results, err := a.client.ExtendBatch(c.context(), deliveries, get[time.Duration](c.body, "lease"))
	return a.results(results, err, func(i int, o *object) { putLease(o, deliveries[i]) })
}

// results answers with one result per job. Without results it returns err. If all jobs failed for the same
// reason, that is the request's problem.
func (a *api) results(results []client.Result, err error, more func(i int, o *object)) (response, error) {
	if results == nil {
		return response{}, err
	}
	count := 0
	list := make([]object, len(results))
	var trouble error
	for i, r := range results {
		list[i] = result(r)
		switch {
		case r.Err == nil:
			count++
			if more != nil {
				more(i, &list[i])
			}
		case trouble == nil && problemOf(r.Err).isTrouble():
			trouble = r.Err
		}
	}
	if trouble != nil {
		if count == 0 && !isStored(trouble) {
			return response{}, trouble
		}
		a.Failed(trouble)
	}
	return ok(view.Of("count", count, "complete", count == len(list), "results", list)), nil
}

// result describes what happened to one job.
func result(r client.Result) object {
	var o object
	o.Text("id", r.ID)
	o.TextIfAny("outcome", string(r.Outcome))
	if r.Err != nil {
		o.Put("problem", problemOf(r.Err).json())
	}
	return o
}
