package server

import "time"

const (
	firstBatch = 500
	// minBatch keeps the fixed cost of a call small, and maxBatch the memory of a batch. Only timeouts make batches
	// smaller than minBatch.
	minBatch, maxBatch = 100, 10000
	// longCall is how long sending a batch and waiting for the reply should take at most. It limits batches on a slow
	// network.
	longCall = 500 * time.Millisecond
)

// batchSize is how many jobs one call may read or move without keeping Redis busy for longer than the budget.
type batchSize struct {
	budget  time.Duration
	current float64
}

func (b *batchSize) size() int { return int(b.current) }

// observe adapts the size to calls that handled that many jobs. took is their time in Redis; 0 if Redis cannot measure it,
// and then the round trip counts instead. A slow call shrinks the size at once, but growth is slow: other users feel a slow
// call, and nobody feels a small batch.
func (b *batchSize) observe(jobs int, took, roundTrip time.Duration) {
	least := min(minBatch, b.current)
	if jobs < int(least) {
		return // mostly fixed cost
	}
	if took <= 0 {
		took = roundTrip
	}
	fits := float64(jobs) * float64(b.budget) / float64(took)
	if roundTrip > 0 {
		fits = min(fits, float64(jobs)*float64(longCall)/float64(roundTrip))
	}
	if fits > b.current {
		fits = b.current + min((fits-b.current)/8, b.current/4)
	}
	b.current = min(max(fits, least), maxBatch)
}

func (b *batchSize) halve() { b.current = max(b.current/2, 1) }
