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
	extendScript = newScript("extend")
	buryScript   = newScript("bury")
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
type Held struct {
	Topic, ID string
	Token     int64 // of the Lease
}

func (h Held) appendTo(args []any) []any {
	return append(args, h.Topic, h.ID, strconv.FormatInt(h.Token, 10))
}

// Ack ends the jobs, which are done. Of these, as of those that follow, there are
// at most 1,000, and none is there twice. For each job it returns what kept it from
// being done: ErrLeaseLost, nil if nothing did. The second result is an error of the
// whole call: then nothing is done, unless the answer was lost.
func (p *Pipeline) Ack(jobs []Held) ([]error, error) {
	args := make([]any, 0, 3+3*len(jobs))
	args = append(args, nil, 1, p.store.keys.JobPool())
	for _, job := range jobs {
		args = job.appendTo(args)
	}
	reply, err := p.receive(p.send(ackScript, args))
	if err != nil {
		return nil, err
	}
	places, ok := reply.([]any)
	if !ok {
		return nil, errReply("ack", reply)
	}
	errs := make([]error, len(jobs))
	for _, place := range places {
		n, _ := place.(int64)
		why := ErrLeaseLost
		if n < 0 {
			n, why = -n, ErrGone
		}
		if n < 1 || int(n) > len(jobs) {
			return nil, errReply("ack", reply)
		}
		errs[n-1] = why
	}
	return errs, nil
}

// Returned is a reserved job that is to be delivered again.
type Returned struct {
	Held
	Delay       time.Duration // 0: it is ready at once
	Refund      bool          // this attempt does not count
	MaxAttempts int           // of a job that doesn't say so; 0: any number
	Error       string        // why, if that is to be kept
}

// Retry gives the jobs back. Its results are as Ack's, and ErrExhausted.
func (p *Pipeline) Retry(jobs []Returned) ([]error, error) {
	args := make([]any, 0, 3+6*len(jobs))
	args = append(args, nil, 1, p.store.keys.JobPool())
	for _, job := range jobs {
		args = append(job.appendTo(args), milliseconds(job.Delay))
		if job.Refund {
			args = append(args, "refund")
		} else {
			args = append(args, job.MaxAttempts)
		}
		args = append(args, job.Error)
	}
	reply, err := p.receive(p.send(retryScript, args))
	if err != nil {
		return nil, err
	}
	return errorsAt("retry", reply, len(jobs), ErrLeaseLost, ErrExhausted)
}

// Extension is a lease that is to last longer, or less long.
type Extension struct {
	Held
	Lease time.Duration // from now on
}

// Extend gives the leases new ends, and returns these, in Unix µs; 0 for one that
// is lost.
func (p *Pipeline) Extend(jobs []Extension) ([]int64, error) {
	args := make([]any, 0, 3+4*len(jobs))
	args = append(args, nil, 1, p.store.keys.JobPool())
	for _, job := range jobs {
		args = append(job.appendTo(args), milliseconds(job.Lease))
	}
	ends, err := redis.Int64s(p.receive(p.send(extendScript, args)))
	if err == nil && len(ends) != len(jobs) {
		err = errReply("extend", ends)
	}
	return ends, err
}

// Burial is a reserved job that is to become a dead letter.
type Burial struct {
	Held
	Reason string
	Error  string // the last, if there is one to be kept
}

// Bury makes dead letters of the jobs. Its results are as Ack's, and errors of Redis.
func (p *Pipeline) Bury(jobs []Burial) ([]error, error) {
	args := make([]any, 0, 3+5*len(jobs))
	args = append(args, nil, 1, p.store.keys.JobPool())
	for _, job := range jobs {
		args = append(job.appendTo(args), job.Reason, job.Error)
	}
	reply, err := p.receive(p.send(buryScript, args))
	if err != nil {
		return nil, err
	}
	return errorsAt("bury", reply, len(jobs), ErrLeaseLost)
}
