package api

import (
	"time"

	"github.com/mix-basic/delayer/client"
)

// heldJob is a reserved job among several.
type heldJob struct {
	held
	id optional[string]
}

// fields are those that name the job. It may also stand here as reserve gave it: what else that has
// is passed over.
func (h *heldJob) fields() fields {
	f := h.held.fields()
	f.text("id", &h.id, maxID)
	f.pass("attempt", "max_attempts", "lease", "deadline", "late_by", "body", "body_base64")
	return f
}

type acks struct{ deliveries []heldJob }

func (b *acks) fields() fields { return fields{"deliveries": list(&b.deliveries, maxBatch)} }

func (a *api) ackBatch(c *call, b *acks) (response, error) {
	deliveries, err := a.deliveries(b.deliveries)
	if err != nil {
		return response{}, err
	}
	results, err := a.client.AckBatch(c.context(), deliveries)
	if results == nil {
		return response{}, err
	}
	return a.results(results, nil)
}

type extensions struct {
	acks
	lease optional[time.Duration]
}

func (b *extensions) fields() fields {
	f := b.acks.fields()
	f.duration("lease", &b.lease, time.Millisecond, client.MaxLease)
	return f
}

func (a *api) extendBatch(c *call, b *extensions) (response, error) {
	deliveries, err := a.deliveries(b.deliveries)
	if err == nil {
		err = b.lease.required("/lease")
	}
	if err != nil {
		return response{}, err
	}
	results, err := a.client.ExtendBatch(c.context(), deliveries, b.lease.value)
	if results == nil {
		return response{}, err
	}
	return a.results(results, func(i int, o *object) { o.lease(deliveries[i]) })
}

// deliveries are those of the jobs, none of which may be there twice.
func (a *api) deliveries(jobs []heldJob) ([]*client.Delivery, error) {
	all := pointer("/deliveries")
	if len(jobs) == 0 {
		return nil, all.problem("it is missing")
	}
	first := map[string]int{}
	list := make([]*client.Delivery, len(jobs))
	for i := range jobs {
		at, id := all.at(i), jobs[i].id.value
		err := jobs[i].id.required(at.member("id"))
		if err == nil {
			err = jobs[i].check(at)
		}
		if n, twice := first[id]; err == nil && twice {
			err = at.member("id").problem("it is that of delivery %d, too", n)
		}
		if err != nil {
			return nil, err
		}
		first[id] = i
		list[i] = a.client.Delivery(jobs[i].topic.value, id, jobs[i].token.value)
	}
	return list, nil
}
