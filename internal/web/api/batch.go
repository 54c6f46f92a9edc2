package api

import (
	"github.com/mix-basic/delayer/client"
)

// newJobs are some to be pushed.
type newJobs struct{ jobs []newJob }

func (j *newJobs) fields() fields { return fields{"jobs": list(&j.jobs, maxBatch)} }

func (j *newJobs) check() error {
	if len(j.jobs) == 0 {
		return pointer("/jobs").problem("it is missing")
	}
	first := map[string]int{}
	for i, job := range j.jobs {
		at := pointer("/jobs").at(i)
		if err := job.check(at); err != nil {
			return err
		}
		if !job.id.given {
			continue
		}
		if n, twice := first[job.id.value]; twice {
			return at.member("id").problem("it is that of job %d, too", n)
		}
		first[job.id.value] = i
	}
	return nil
}

func (a *api) pushBatch(c *call, j *newJobs) (response, error) {
	if err := j.check(); err != nil {
		return response{}, err
	}
	list := make([]client.Delayed, len(j.jobs))
	for i, job := range j.jobs {
		list[i] = client.Delayed{Message: job.message(), Delay: job.delay.value, At: job.due.value, Options: job.options()}
	}
	results, err := a.client.PushBatch(c.context(), list)
	if results == nil {
		return response{}, err
	}
	stored := map[string]int{}
	for i, result := range results {
		if result.Err == nil {
			stored[list[i].Topic]++
		}
	}
	for topic, n := range stored {
		a.Pushed(topic, n)
	}
	return a.results(results, nil)
}

// results are what became of each job. What kept all of them from it is the request's problem.
func (a *api) results(results []client.Result, more func(i int, o *object)) (response, error) {
	count := 0
	list := make([]object, len(results))
	var trouble error
	for i, r := range results {
		list[i] = result(r.ID, r.Err)
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
		if count == 0 {
			return response{}, trouble
		}
		a.Failed(trouble)
	}
	return ok(object{{"count", count}, {"complete", count == len(list)}, {"results", list}}), nil
}

// result is what became of one job.
func result(id string, err error) object {
	var o object
	o.text("id", id)
	if err != nil {
		o.put("problem", problemOf(err).json())
	}
	return o
}

// hasProblem reports whether a result is one of failure.
func (o object) hasProblem() bool { return o[len(o)-1].name == "problem" }
