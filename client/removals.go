package client

import (
	"github.com/mix-basic/delayer/internal/coalesce"
	"github.com/mix-basic/delayer/internal/store"
)

const (
	// maxRemoveCalls is how many round trips that remove jobs are under way at a time.
	maxRemoveCalls = 2
	// maxRemoved is how many jobs one removes: Redis may do without a break what comes in one
	// piece, and to take a job out of a long ready queue is slow.
	maxRemoved = 32
)

// removal is a job that is to be removed.
type removal struct {
	id      string
	removed bool // what came of it
}

func newRemovals(o *coalesce.Owner, s *store.Store) *coalesce.Calls[*removal] {
	bounds := coalesce.Bounds[*removal]{Items: maxRemoved, Measure: func(r *removal) (id string, bytes int) { return r.id, len(r.id) }}
	return coalesce.NewCalls(o, s, maxRemoveCalls, bounds, func(p *store.Pipeline, items []*removal) ([]error, error) {
		removed, errs := p.Remove(each(items, func(r *removal) string { return r.id }))
		for i, r := range items {
			r.removed = removed[i]
		}
		return errs, nil
	})
}
