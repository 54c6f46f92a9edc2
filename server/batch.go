package server

import "time"

const (
	firstBatch = 500
	// minBatch keeps the share of a call's fixed cost small, maxBatch a
	// batch's memory.
	minBatch, maxBatch = 100, 10000
)

// batchSize is how many jobs one look-up may return, so that neither the look-up nor the
// moves that follow keep Redis busy for longer than the budget.
type batchSize struct {
	budget  time.Duration
	current float64
}

func newBatchSize(budget time.Duration) batchSize {
	return batchSize{budget: budget, current: firstBatch}
}

func (b *batchSize) size() int { return int(b.current) }

// observe learns from a call that did so many jobs. took is what Redis says it
// took; where Redis has no clock for that it is 0, and the round trip stands in for it.
// A call that was too slow counts at once; growth is careful, since a slow call
// is felt by others and a small batch by nobody.
func (b *batchSize) observe(jobs int, took, roundTrip time.Duration) {
	if jobs < minBatch {
		return // mostly fixed cost: says little about a job's
	}
	if took <= 0 {
		took = roundTrip
	}
	fits := float64(jobs) * float64(b.budget) / float64(took)
	if fits > b.current {
		fits = b.current + min((fits-b.current)/8, b.current/4)
	}
	b.current = min(max(fits, minBatch), maxBatch)
}
