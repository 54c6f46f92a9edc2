package store

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	ackScript    = newScript("ack")
	retryScript  = newScript("retry")
	buryScript   = newScript("bury")
	extendScript = newScript("extend")
)

var (
	// ErrLeaseLost is returned for a job whose lease is not held any more. Nothing
	// has changed then.
	ErrLeaseLost = errors.New("the lease is lost")
	// ErrGone is returned for a job that is gone, be it by an Ack of before.
	ErrGone = fmt.Errorf("%w: the job is gone", ErrLeaseLost)
	// ErrExhausted is returned for a job that was not given back, as its attempts are
	// used up: it is a dead letter now.
	ErrExhausted = errors.New("the attempts are used up: the job is a dead letter now")
)

// Held is a reserved job, and the lease under which it is held.
type LeaseRef struct {
	Topic, ID string
	Token     int64 // of the Lease
}

func (h LeaseRef) appendTo(args []any) []any {
	return append(args, h.Topic, h.ID, strconv.FormatInt(h.Token, 10))
}

// Ack ends the jobs, which are done. Of these, as of those that follow, there are
// at most 1,000, and none is there twice. For each job the answer is what kept it from
// being done: ErrLeaseLost, nil if nothing did. After an error of the call nothing is
// done, unless the answer was lost.
func (s *Store) Ack(jobs []LeaseRef) *Call[[]error] {
	args := arguments(3*len(jobs), s.jobPool)
	for _, job := range jobs {
		args = job.appendTo(args)
	}
	return newCall(s, ackScript, args, func(reply any) ([]error, error) {
		errs := make([]error, len(jobs))
		if reply == nil {
			return errs, nil
		}
		places, err := redis.Values(reply, nil)
		for _, place := range places {
			n, _ := place.(int64)
			why := ErrLeaseLost
			if n < 0 {
				n, why = -n, ErrGone
			}
			if n < 1 || int(n) > len(jobs) {
				return nil, errUnreadable
			}
			errs[n-1] = why
		}
		return errs, err
	})
}

// Returned is a reserved job that is to be delivered again.
type Returned struct {
	LeaseRef
	Delay       time.Duration // 0: it is ready at once
	Refund      bool          // this attempt does not count
	MaxAttempts int           // of a job that doesn't say so; 0: any number
	Error       string        // why, if that is to be kept
}

// Retry gives the jobs back. Its answer is as Ack's, and ErrExhausted.
func (s *Store) Retry(jobs []Returned) *Call[[]error] {
	args := arguments(6*len(jobs), s.jobPool)
	for _, job := range jobs {
		args = append(job.appendTo(args), milliseconds(job.Delay))
		if job.Refund {
			args = append(args, refund)
		} else {
			args = append(args, job.MaxAttempts)
		}
		args = append(args, job.Error)
	}
	return newCall(s, retryScript, args, func(reply any) ([]error, error) {
		return errorsAt(reply, len(jobs))
	})
}

// Extension is a lease that is to last longer, or less long.
type Extension struct {
	LeaseRef
	Lease time.Duration // from now on
	End   int64         // is set by Extend, in Unix µs
}

// Extend gives the leases new ends. Its answer is as Ack's.
func (s *Store) Extend(jobs []*Extension) *Call[[]error] {
	args := arguments(4*len(jobs), s.jobPool)
	for _, job := range jobs {
		args = append(job.appendTo(args), milliseconds(job.Lease))
	}
	return newCall(s, extendScript, args, func(reply any) ([]error, error) {
		ends, err := redis.Int64s(reply, nil)
		if err != nil || len(ends) != len(jobs) {
			return nil, errUnreadable
		}
		errs := make([]error, len(jobs))
		for i, end := range ends {
			if jobs[i].End = end; end == 0 {
				errs[i] = ErrLeaseLost
			}
		}
		return errs, nil
	})
}

// Burial is a reserved job that is to become a dead letter.
type Burial struct {
	LeaseRef
	Reason string
	Error  string // the last, if there is one to be kept
}

// Bury makes dead letters of the jobs. Its answer is as Ack's, and errors of Redis.
func (s *Store) Bury(jobs []Burial) *Call[[]error] {
	args := arguments(5*len(jobs), s.jobPool)
	for _, job := range jobs {
		args = append(job.appendTo(args), job.Reason, job.Error)
	}
	return newCall(s, buryScript, args, func(reply any) ([]error, error) {
		return errorsAt(reply, len(jobs))
	})
}
