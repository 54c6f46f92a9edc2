package client

import (
	"time"

	"github.com/mix-basic/delayer/internal/coalesce"
	"github.com/mix-basic/delayer/internal/store"
)

// maxSettleCalls is how many calls that settle jobs are under way at a time.
const maxSettleCalls = 2

// settlement is what becomes of a reserved job, or of its lease.
type settlement struct {
	verb   verb
	held   store.Held
	delay  time.Duration // retry: until the job is due; extend: until the lease ends
	limit  int           // retry: the consumer's own number of attempts
	reason string        // bury
	text   string        // retry, bury: the last error
	end    int64         // extend: the new end of the lease
}

type verb int

const (
	ack verb = iota
	retry
	release
	extend
	bury
)

// settleBounds say which settlements go to Redis together.
var settleBounds = coalesce.Bounds[*settlement]{Items: coalesce.MaxItems, Measure: func(s *settlement) (id string, bytes int) {
	return s.held.ID, len(s.text) + len(s.reason)
}}

func newSettlements(o *coalesce.Owner, s *store.Store) *coalesce.Calls[*settlement] {
	return coalesce.NewCalls(o, s, maxSettleCalls, settleBounds, settle)
}

// settle makes one call for each verb, in the order of the verbs. The items' errors are the
// results; the second one is the first error of a whole call.
func settle(p *store.Pipeline, items []*settlement) ([]error, error) {
	errs := make([]error, len(items))
	for v := ack; v <= bury; v++ {
		var places []int
		for i, s := range items {
			if s.verb == v {
				places = append(places, i)
			}
		}
		if len(places) == 0 {
			continue
		}
		of := make([]*settlement, len(places))
		for k, i := range places {
			of[k] = items[i]
		}
		results, err := settleAlike(p, v, of)
		for k, i := range places {
			if err != nil {
				errs[i] = err
			} else {
				errs[i] = results[k]
			}
		}
	}
	return errs, nil
}

func settleAlike(p *store.Pipeline, v verb, items []*settlement) ([]error, error) {
	switch v {
	case ack:
		return p.Ack(each(items, func(s *settlement) store.Held { return s.held }))
	case extend:
		ends, err := p.Extend(each(items, func(s *settlement) store.Extension { return store.Extension{Held: s.held, Lease: s.delay} }))
		if err != nil {
			return nil, err
		}
		errs := make([]error, len(items))
		for i, end := range ends {
			if items[i].end = end; end == 0 {
				errs[i] = ErrLeaseLost
			}
		}
		return errs, nil
	case bury:
		return p.Bury(each(items, func(s *settlement) store.Burial { return store.Burial{Held: s.held, Reason: s.reason, Error: s.text} }))
	}
	return p.Retry(each(items, func(s *settlement) store.Returned {
		return store.Returned{Held: s.held, Delay: s.delay, Refund: v == release, MaxAttempts: s.limit, Error: s.text}
	}))
}

func each[T, U any](items []T, f func(T) U) []U {
	list := make([]U, len(items))
	for i, item := range items {
		list[i] = f(item)
	}
	return list
}
