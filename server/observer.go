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
	// Fired is called after each schedule that was due.
	Fired(f Fired)
}

// Fired is what came of a schedule that was due.
type Fired struct {
	Schedule, Topic          string
	Jobs                     int           // that were pushed
	Late, Overlapped, Paused int           // moments without a job: it was too late, the job before is not done, it is paused
	After                    time.Duration // from the last moment that had a job until that was pushed
}

// Moved is what one script call made ready.
type Moved struct {
	Jobs     int
	Returned int // of these, leases that had ended
	// Late is when they became ready less when they were due. That is the due time in the pool:
	// the end of the lease, or the next try of what a broken queue did not take.
	Late Lateness
}

// LatenessBounds are the upper bounds of a Lateness's buckets, but for the last one, which has
// none: 1, 2, 5, 10, 20, 50, 100, 200 and 500 ms, 1, 2, 5 and 10 s, 1 and 10 minutes, 1 hour.
var LatenessBounds = store.LatenessBounds

// Lateness is by how much jobs were late when they became ready: a histogram. The zero value
// is that of no jobs.
type Lateness struct {
	// Counts are the jobs by bucket: Counts[i] were late by LatenessBounds[i] at most, but by
	// more than the bound before; the last count is of those beyond all bounds.
	Counts [len(LatenessBounds) + 1]int64
	// Sum is by how much they were late in all, in seconds.
	Sum float64
}

// Plus is the lateness of the jobs of both.
func (l Lateness) Plus(other Lateness) Lateness {
	return Lateness(store.Lateness(l).Plus(store.Lateness(other)))
}

// Jobs is how many jobs there are.
func (l Lateness) Jobs() int64 { return store.Lateness(l).Jobs() }

// Quantile is by how much the part q of the jobs, from 0 to 1, were late at most. It is exact at
// the bounds and estimated between them; beyond the last one it is that. Of no jobs it is 0.
func (l Lateness) Quantile(q float64) time.Duration { return store.Lateness(l).Quantile(q) }

// observe tells all Observers.
func (s *Server) observe(tell func(Observer)) {
	for _, o := range s.observers {
		tell(o)
	}
}

// called tells them Redis's time for a call, if it is known.
func (s *Server) called(script string, took time.Duration) {
	if took > 0 {
		s.observe(func(o Observer) { o.Called(script, took) })
	}
}
