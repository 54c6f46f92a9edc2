package api

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/view"
)

// maxBatch is the maximum number of jobs per request.
const maxBatch = 1000

// distinct returns the objects of a list field, unless an ID is in it twice.
func (c *call) distinct(name string) ([]values, error) {
	list, first := get[[]values](c.body, name), map[string]jsontext.Pointer{}
	for i, one := range list {
		id, at := get[string](one, "id"), jsontext.Pointer(fmt.Sprint("/", name, "/", i))
		if before, twice := first[id]; twice && id != "" {
			return nil, invalid.field(at.AppendToken("id"), "%s has the same ID", before)
		}
		first[id] = at
	}
	return list, nil
}

func (c *call) pushBatch() (any, error) {
	if len(c.r.Header.Values(IdempotencyKey)) > 0 {
		return nil, invalid.parameter(IdempotencyKey, "a batch takes no key: give each job an id, and once")
	}
	jobs, err := c.distinct("jobs")
	list := make([]client.Item, len(jobs))
	for i := 0; i < len(jobs) && err == nil; i++ {
		list[i], err = newJobOf(jobs[i], jsontext.Pointer(fmt.Sprint("/jobs/", i)))
	}
	if err != nil {
		return nil, err
	}
	results, err := c.client.PushBatch(c.context(), list)
	stored := map[string]int{}
	for i, result := range results {
		results[i].Err = ofPush(jobs[i], result.Err)
		if isStored(result.Err) {
			stored[list[i].Topic]++
		}
	}
	for topic, n := range stored {
		c.Pushed(topic, n)
	}
	return c.results(results, err, nil)
}

// deliveries returns the deliveries that the body names.
func (c *call) deliveries() ([]*client.Delivery, error) {
	jobs, err := c.distinct("deliveries")
	list := make([]*client.Delivery, len(jobs))
	for i, job := range jobs {
		list[i] = c.delivery(get[string](job, "id"), job)
	}
	return list, err
}

func (c *call) ackBatch() (any, error) {
	deliveries, err := c.deliveries()
	if err != nil {
		return nil, err
	}
	results, err := c.client.AckBatch(c.context(), deliveries)
	return c.results(results, err, nil)
}

func (c *call) extendBatch() (any, error) {
	deliveries, err := c.deliveries()
	if err != nil {
		return nil, err
	}
	results, err := c.client.ExtendBatch(c.context(), deliveries, get[time.Duration](c.body, "lease"))
	return c.results(results, err, func(i int) object { return leaseOf(deliveries[i]) })
}

// results answers with one result per job; more adds to that of a success. Without results it returns err. If
// all jobs failed for the same reason, that is the request's problem.
func (c *call) results(results []client.Result, err error, more func(i int) object) (any, error) {
	if results == nil {
		return nil, err
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
				list[i] = append(list[i], more(i)...)
			}
		case trouble == nil && problemOf(r.Err).isTrouble():
			trouble = r.Err
		}
	}
	if trouble != nil {
		if count == 0 && !isStored(trouble) {
			return nil, trouble
		}
		c.Failed(trouble)
	}
	return view.Of("count", count, "complete", count == len(list), "results", list), nil
}

// result describes what happened to one job.
func result(r client.Result) (o object) {
	o.Put("id", r.ID)
	o.PutIfAny("outcome", string(r.Outcome))
	if r.Err != nil {
		o.Put("problem", problemOf(r.Err).json())
	}
	return o
}
