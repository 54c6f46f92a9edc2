package server

import "time"

const (
	firstBatch = 500
	// minBatch keeps the share of a call's fixed cost small, maxBatch a
	// batch's memory. Only timeouts make batches smaller than minBatch.
	minBatch, maxBatch = 100, 10000
	// longTrip is how long the sending of a batch and the waiting for the
	// answer should take at most: on a slow network that is what limits it.
	longTrip = 500 * time.Millisecond
)

// batchSize is how many jobs one answer may have, so that neither finding nor
// moving them keeps Redis busy for longer than the budget.
type batchSize struct {
	budget  time.Duration
	current float64
}

func (b *batchSize) size() int { return int(b.current) }

// observe learns from calls that did so many jobs. took is what Redis says they
// took; where Redis has no clock for that it is 0, and the round trip stands in
// for it. A call that was too slow counts at once; growth is careful, since a
// slow call is felt by others and a small batch by nobody.
func (b *batchSize) observe(jobs int, took, roundTrip time.Duration) {
	least := min(minBatch, b.current)
	if jobs < int(least) {
		return // mostly fixed cost: says little about a job's
	}
	if took <= 0 {
		took = roundTrip
	}
	fits := float64(jobs) * float64(b.budget) / float64(took)
	if roundTrip > 0 {
		fits = min(fits, float64(jobs)*float64(longTrip)/float64(roundTrip))
	}
	if fits > b.current {
		fits = b.current + min((fits-b.current)/8, b.current/4)
	}
	b.current = min(max(fits, least), maxBatch)
}

// halve is for a batch that was so large that its answer did not come in time.
func (b *batchSize) halve() { b.current = max(b.current/2, 1) }
