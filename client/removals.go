package client

import "github.com/mix-basic/delayer/internal/store"

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

// newRemovals are the Remove calls of a partition.
func newRemovals(c *Client, s *store.Store) *shared[*removal] {
	begin := func() func(*removal) bool {
		jobs, bytes := 0, 0
		return func(r *removal) bool {
			jobs++
			bytes += len(r.id)
			return jobs <= maxRemoved && bytes <= maxBytes
		}
	}
	return newShared(c, s, maxRemoveCalls, begin, func(p *store.Pipeline, items []*removal) ([]error, error) {
		removed, errs := p.Remove(each(items, func(r *removal) string { return r.id }))
		for i, r := range items {
			r.removed = removed[i]
		}
		return errs, nil
	})
}
