package store

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	rescheduleScript = newScript("reschedule")
	removeScript     = newScript("remove")
	getScript        = newScript("get")
)

// Reschedule gives the job a new delay.
func (s *Store) Reschedule(ctx context.Context, id string, delay time.Duration) error {
	args := append(arguments(2, s.jobPool, s.keys.JobBucket(id)), id, milliseconds(delay))
	errs, err := newCall(s, rescheduleScript, args, isFound).Do(ctx)
	if err != nil {
		return err
	}
	return errs[0]
}

// Removal removes a job.
type Removal struct {
	ID             string
	UnlessReserved bool   // leaves it alone while it is reserved
	Was            string // set by Remove: the state in which it was
}

// Outcomes of remove.lua for jobs that are removed and were not waiting.
var (
	errWasReserved = errors.New("it was reserved")
	errWasReady    = errors.New("it was ready")
	errWasDead     = errors.New("it was dead")
)

var wasIn = map[error]string{nil: stateWaiting, errWasReserved: stateReserved, errWasReady: stateReady, errWasDead: stateDead}

// Remove deletes up to 1,000 jobs in any state, no ID twice. Each has its own error: ErrNotFound, ErrReserved, or ErrLater if it is left to
// another call, never for the first one.
func (s *Store) Remove(jobs []*Removal) *Call[[]error] {
	args := arguments(4*len(jobs), s.jobPool)
	for _, job := range jobs {
		args = append(args, s.keys.JobBucket(job.ID), s.keys.DeadLetter(job.ID))
	}
	args[1] = 1 + 2*len(jobs)
	for _, job := range jobs {
		args = append(args, job.ID, job.UnlessReserved)
	}
	return newCall(s, removeScript, args, func(reply any) ([]error, error) {
		errs, err := errorsAt(reply, len(jobs))
		for i, told := range errs {
			if was, done := wasIn[told]; done {
				jobs[i].Was, errs[i] = was, nil
			}
		}
		return errs, err
	})
}

// isFound reads 1 if there was a job, else 0.
func isFound(reply any) ([]error, error) {
	found, err := redis.Bool(reply, nil)
	if found {
		return []error{nil}, err
	}
	return []error{ErrNotFound}, err
}

// JobInfo is the result of Get.
type JobInfo struct {
	Job
	State       string        // waiting, ready, reserved or dead
	Due         time.Time     // when it is due, its lease ends, or it was buried; zero if it is ready
	TTL         time.Duration // until Redis drops the job; -1 if never
	Attempts    int
	MaxAttempts int           // 0 if the job sets none
	Error       string        // of the last attempt, if one is known
	Reason      string        // why it is dead
	Token       int64         // of the last reserve
	TTR         time.Duration // length of its leases; 0 if the job does not say
	Followed    bool          // it has a follower
}

// Get reads the job.
func (s *Store) Get(ctx context.Context, id string) (JobInfo, error) {
	k := s.keys
	args := append(arguments(1, k.JobPool(), k.JobBucket(id), k.DeadLetter(id)), id)
	found, err := newCall(s, getScript, args, foundOf).Do(ctx)
	if err == nil && found.State == "" {
		return JobInfo{}, ErrNotFound
	}
	found.ID = id
	return found, err
}

// foundOf reads get.lua's reply, which is empty if there is no such job.
func foundOf(reply any) (found JobInfo, err error) {
	fields, err := redis.Values(reply, nil)
	if err != nil || len(fields) == 0 {
		return JobInfo{}, err
	}
	var ttl, ttr int64
	var due, headers string
	if _, err := redis.Scan(fields, &found.State, &found.Topic, &found.Body, &ttl, &due, &found.Attempts, &found.MaxAttempts,
		&found.Error, &found.Reason, &found.Token, &ttr, &found.Followed, &headers); err != nil {
		return JobInfo{}, err
	}
	found.TTL, found.TTR, found.Headers = optional(ttl), time.Duration(ttr)*time.Millisecond, HeadersOf(headers)
	if due != "" {
		found.Due, err = scoreTime(due)
	}
	return found, err
}

// optional converts a script's milliseconds; -1 stays -1.
func optional(ms int64) time.Duration {
	if ms < 0 {
		return -1
	}
	return time.Duration(ms) * time.Millisecond
}

// scoreTime returns the due time of a score, to the microsecond. A score beyond the range of JSON becomes the first or last ms of it.
func scoreTime(score string) (time.Time, error) {
	seconds, err := strconv.ParseFloat(score, 64)
	if err != nil {
		return time.Time{}, err
	}
	return secondsTime(seconds), nil
}

func secondsTime(seconds float64) time.Time {
	const last, first = 253402300799.999, -62135596800
	return time.UnixMicro(int64(math.Round(max(min(seconds, last), first) * 1e6)))
}
