package server

import (
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// Hooks are called for what a Server does, for example to count it; nil ones are skipped. They must be safe for concurrent use and
// return soon: the Server waits for them.
type Hooks struct {
	// Moved is called after each script call that made jobs of the topic ready.
	Moved func(topic string, m Moved)
	// Dropped is called after orphans, IDs without a job, were removed, or ready jobs that were about to expire became dead letters.
	Dropped func(jobs int)
	// Passed is called after each pass. err is what stopped it, or nil.
	Passed func(took time.Duration, err error)
	// Called is called with Redis's own time for a script call, where Redis can measure it. The scripts are "due" and, for
	// larger batches, "move".
	Called func(script string, took time.Duration)
	// Fired is called after each schedule that was due.
	Fired func(f Fired)
}

// Fired is the result of firing a schedule.
type Fired struct {
	Schedule, Topic          string
	Jobs                     int           // pushed
	Late, Overlapped, Paused int           // occurrences without a job: too late, the previous job not done, the schedule paused
	After                    time.Duration // from the last occurrence with a job until that job was pushed
}

// Moved is the result of one script call that made jobs ready.
type Moved struct {
	Jobs     int
	Returned int // of these, jobs whose leases had ended
	// Late is how long after their due time they became ready. The due time is the one in the pool: for a reserved job the end
	// of its lease, for a job of a broken queue its next try.
	Late Lateness
}

// LatenessBounds returns the upper bounds of a Lateness's buckets, except the last bucket, which has none: 1, 2, 5, 10, 20, 50, 100,
// 200 and 500 ms, 1, 2, 5 and 10 s, 1 and 10 minutes, 1 hour.
func LatenessBounds() []time.Duration { return slices.Clone(store.LatenessBounds[:]) }

// Lateness is a histogram of how late jobs became ready. The zero value has no jobs.
type Lateness struct {
	// Counts[i] is the number of jobs that were at most LatenessBounds()[i] late, and later than the bound before that. The last
	// count is of jobs beyond all bounds. The zero value has no counts.
	Counts []int64
	// Sum is the lateness of all jobs, in seconds.
	Sum float64
}

func latenessOf(l store.Lateness) Lateness { return Lateness{l.Counts[:], l.Sum} }

func (l Lateness) inside() (s store.Lateness) {
	copy(s.Counts[:], l.Counts)
	s.Sum = l.Sum
	return s
}

// Plus returns the sum of both histograms, with all counts.
func (l Lateness) Plus(other Lateness) Lateness { return latenessOf(l.inside().Plus(other.inside())) }

// Jobs returns the number of jobs.
func (l Lateness) Jobs() int64 { return l.inside().Jobs() }

// Quantile returns the lateness that the fraction q of the jobs, from 0 to 1, did not exceed. It is exact at the bounds,
// interpolated between them, and never above the last bound. Without jobs it is 0.
func (l Lateness) Quantile(q float64) time.Duration { return l.inside().Quantile(q) }

func (s *Server) moved(m store.Moved) {
	s.heartbeat.moved(m)
	if hook := s.options.Hooks.Moved; hook != nil {
		hook(m.Topic, Moved{len(m.IDs), m.Lapsed, latenessOf(m.Late)})
	}
}

func (s *Server) dropped(jobs int) {
	s.heartbeat.dropped(jobs)
	if hook := s.options.Hooks.Dropped; hook != nil {
		hook(jobs)
	}
}

func (s *Server) passed(took time.Duration, err error) {
	s.heartbeat.passed()
	if hook := s.options.Hooks.Passed; hook != nil {
		hook(took, err)
	}
}

func (s *Server) called(script string, took time.Duration) {
	if hook := s.options.Hooks.Called; hook != nil && took > 0 {
		hook(script, took)
	}
}
