package server

import (
	"fmt"
	"time"

	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/store"
)

const (
	// retryEvery is how long a job that cannot be moved waits for the next try.
	retryEvery = store.RetryAfter
	// retrySpacing is the least time between two retries, so that many stuck jobs cost Redis no more than about 5 % of its
	// time; they are then tried less often.
	retrySpacing = 100 * time.Microsecond
	// overAfter, in units of retryEvery: a trouble is over when no stuck job was seen for that long. It is long because
	// other servers may have tried the jobs meanwhile.
	overAfter = 6
)

// stuckJobs are due jobs that cannot be moved, because their ready queue is broken or not writable, or their bucket is not
// readable. The script puts them back into the pool, due later, so they block nothing and are tried again like any due job.
//
// All times are by Redis's clock.
type stuckJobs struct {
	every   time.Duration // retryEvery, except in tests
	outages *outages
	free    time.Time            // no retry is planned after this
	last    map[string]time.Time // by trouble: when its last job is tried
}

// A trouble keeps jobs from being moved. Its name is the log line.
const bucketTrouble = "Jobs can't be moved, their buckets can't be read"

func topicTrouble(topic string) string { return "Jobs of a topic can't be moved, Topic: " + topic }

func newStuckJobs(outages *outages) stuckJobs {
	return stuckJobs{every: retryEvery, outages: outages, last: map[string]time.Time{}}
}

// retryAt is when to try a job again if it turns out to be stuck, in whole milliseconds. place is its index among the jobs of
// its topic that were read together.
func (s *stuckJobs) retryAt(now time.Time, place int) time.Time {
	at := later(now.Add(s.every), s.free).Add(time.Duration(place) * retrySpacing)
	return at.Add(time.Millisecond - 1).Truncate(time.Millisecond)
}

// putBack records that jobs were put back into the pool, and why.
func (s *stuckJobs) putBack(trouble string, jobs int, why error, now time.Time) {
	s.free = later(now.Add(s.every), s.free).Add(time.Duration(jobs) * retrySpacing)
	s.report(trouble, fmt.Errorf("%w; they are tried again every %v", why, duration.Format(s.every)), now)
}

// report records a trouble whose last job is tried when all those that are planned have been.
func (s *stuckJobs) report(trouble string, why error, now time.Time) {
	s.last[trouble] = later(now.Add(s.every), s.free)
	s.outages.report(trouble, why)
}

// met records jobs that may be stuck.
func (s *stuckJobs) met(trouble string, now time.Time) {
	if last, stuck := s.last[trouble]; stuck {
		s.last[trouble] = later(last, now)
	}
}

func (s *stuckJobs) over(trouble string) {
	if _, stuck := s.last[trouble]; stuck {
		delete(s.last, trouble)
		s.outages.report(trouble, nil)
	}
}

// forget ends the troubles whose last stuck job has been gone for long.
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
