package server

import (
	"fmt"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

const (
	// retryEvery is how long a job that can't be moved rests before it is
	// tried again.
	retryEvery = store.RetryAfter
	// retrySpacing is the time from one retry to the next: so many stuck jobs
	// cost Redis some 5 % of its time, and are tried less often.
	retrySpacing = 100 * time.Microsecond
	// overAfter is how many times retryEvery no job must have been stuck for a
	// trouble to be over. Other servers may have met them meanwhile.
	overAfter = 6
)

// stuckJobs are due jobs that can't be moved: their ready queue is broken, or
// may not be written to, or their bucket may not be read. Redis has put them back
// into the pool, due later. So they stand in nobody's way and are tried again
// like any job that falls due.
//
// All times are by Redis's clock.
type stuckJobs struct {
	every   time.Duration // retryEvery, but for tests
	outages *outages
	free    time.Time            // from when on no retry is planned
	last    map[string]time.Time // when a job of it is tried last
}

// A trouble keeps jobs from being moved. It is named as the log names it.
const bucketTrouble = "Jobs can't be moved, their buckets can't be read"

func topicTrouble(topic string) string { return "Jobs of a topic can't be moved, Topic: " + topic }

func newStuckJobs(outages *outages) stuckJobs {
	return stuckJobs{every: retryEvery, outages: outages, last: map[string]time.Time{}}
}

// retryAt is when a job is to be tried again if it turns out to be stuck, in whole
// milliseconds; place is how many others of its topic were found with it before it.
func (s *stuckJobs) retryAt(now time.Time, place int) time.Time {
	at := later(now.Add(s.every), s.free).Add(time.Duration(place) * retrySpacing)
	return at.Add(time.Millisecond - 1).Truncate(time.Millisecond)
}

// putBack enters that so many jobs were put back, and why.
func (s *stuckJobs) putBack(trouble string, jobs int, why error, now time.Time) {
	s.free = later(now.Add(s.every), s.free).Add(time.Duration(jobs) * retrySpacing)
	s.last[trouble] = s.free
	s.outages.report(trouble, fmt.Errorf("%w; they are tried again every %v", why, s.every))
}

// met enters that jobs were seen which may be stuck.
func (s *stuckJobs) met(trouble string, now time.Time) {
	if last, stuck := s.last[trouble]; stuck {
		s.last[trouble] = later(last, now)
	}
}

// over enters that jobs were moved.
func (s *stuckJobs) over(trouble string) {
	if _, stuck := s.last[trouble]; stuck {
		delete(s.last, trouble)
		s.outages.report(trouble, nil)
	}
}

// forget ends the troubles of which no job has been seen for long: there is none
// any more.
func (s *stuckJobs) forget(now time.Time) {
	for trouble, last := range s.last {
		if now.Sub(last) > overAfter*s.every {
			s.over(trouble)
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
