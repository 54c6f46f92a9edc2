package server

import (
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// Observer is told what a Server does, for metrics. Its methods return soon, as the Server waits
// for them, and are safe for concurrent use.
type Observer interface {
	// Moved is called after each script call that made jobs of the topic ready.
	Moved(topic string, m Moved)
	// Dropped tells of orphans that were taken out of the pool.
	Dropped(jobs int)
	// Passed is called after each pass. err is what stopped it.
	Passed(took time.Duration, err error)
	// Called tells Redis's own time for one call of a script, where that was measured: "due",
	// and "move" for many jobs.
	Called(script string, took time.Duration)
}

// Moved is what one script call made ready.
type Moved struct {
	Jobs     int
	Returned int // of these, leases that had ended
	// Late is when they became ready less when they were due. That is the due time in the pool:
	// the end of the lease, or the next try of what a broken queue did not take.
	Late Lateness
}

// Lateness is by how much jobs were late when they became ready.
type Lateness = store.Lateness

// LatenessBounds are the bounds of a Lateness's buckets.
var LatenessBounds = store.LatenessBounds

// observers tell several.
type observers []Observer

func (os observers) Moved(topic string, m Moved) {
	for _, o := range os {
		o.Moved(topic, m)
	}
}

func (os observers) Dropped(jobs int) {
	for _, o := range os {
		o.Dropped(jobs)
	}
}

func (os observers) Passed(took time.Duration, err error) {
	for _, o := range os {
		o.Passed(took, err)
	}
}

func (os observers) Called(script string, took time.Duration) {
	if took <= 0 {
		return
	}
	for _, o := range os {
		o.Called(script, took)
	}
}
