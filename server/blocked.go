package server

import "time"

const (
	// manyBlocked is how many stuck jobs every pass looks at again without
	// further thought.
	manyBlocked = 1000
	// blockedShare bounds the time spent on looking at more of them, as a part of all time.
	blockedShare = 20
)

// blockedFront remembers how many jobs of broken topics stand in front of the
// pool. Many of them are not looked at on each pass but now and then; the passes between
// begin behind them. So a broken topic costs Redis little, however long it stays so, and is
// still found to be well again.
type blockedFront struct {
	jobs      int
	lookAgain time.Time
}

// skip is how many of the first due jobs a pass that starts now passes over.
func (b *blockedFront) skip(now time.Time) int {
	if b.jobs <= manyBlocked || !now.Before(b.lookAgain) {
		return 0
	}
	return b.jobs
}

// found is told by a pass over everything how many it left, and how long it took.
func (b *blockedFront) found(jobs int, took time.Duration) {
	b.jobs = jobs
	b.lookAgain = time.Now().Add(blockedShare * took)
}
