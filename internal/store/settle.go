package store

import (
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

const (
	// ErrLeaseLost means that the lease has ended. Nothing has changed.
	ErrLeaseLost Error = "the lease is lost"
	// ErrGone is the ErrLeaseLost of a job that is gone, perhaps due to an earlier Ack.
	ErrGone = ErrLeaseLost + ": the job is gone"
	// ErrExhausted means that a job was not returned because its attempts are used up: it is a dead letter now.
	ErrExhausted Error = "the attempts are used up: the job is a dead letter now"
)

// LeaseRef names a reserved job and its lease.
type LeaseRef struct {
	Topic, ID string
	Token     int64 // of the Lease
}

func (h LeaseRef) appendTo(args []any) []any {
	return append(args, h.Topic, h.ID, strconv.FormatInt(h.Token, 10))
}

// Ack completes up to 1,000 jobs, none listed twice; the same bounds hold for the methods below. Each job has its own error:
// ErrLeaseLost, or nil. After an error of the call nothing is done, unless the reply was lost.
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

// Returned is a reserved job that is delivered again.
type Returned struct {
	LeaseRef
	Delay       time.Duration // 0: it is ready at once
	Refund      bool          // this attempt does not count
	MaxAttempts int           // of a job that sets none; 0: any number
	Error       string        // stored with the job, unless it is empty
}

// Retry returns the jobs. It returns errors as Ack does, and ErrExhausted.
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

// Extension gives a lease a new length.
type Extension struct {
	LeaseRef
	Lease time.Duration // from now on
	End   int64         // set by Extend, in Unix µs
}

// Extend gives the leases new ends. It returns errors as Ack does.
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

// Burial is a reserved job that becomes a dead letter.
type Burial struct {
	LeaseRef
	Reason string
	Error  string // stored with the letter, unless it is empty
}

// Bury makes the jobs dead letters. It returns errors as Ack does, and errors of Redis.
func (s *Store) Bury(jobs []Burial) *Call[[]error] {
	args := arguments(5*len(jobs), s.jobPool)
	for _, job := range jobs {
		args = append(job.appendTo(args), job.Reason, job.Error)
	}
	return newCall(s, buryScript, args, func(reply any) ([]error, error) {
		return errorsAt(reply, len(jobs))
	})
}
