package store

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Replicas is the number of replicas that must have a job, and the maximum wait for them. The zero value waits for none.
type Replicas struct {
	N      int
	Within time.Duration
}

// waitFor bounds one WAIT, so that the end of a context and a hanging Redis are noticed.
const waitFor = 250 * time.Millisecond

// Pushed are jobs of a push, and their errors.
type Pushed struct {
	Jobs []Delayed
	Errs []error
}

// TooFew makes the error of a job that is stored, but that fewer replicas than wanted had in time. have is -1 if their number is
// unknown because of err.
type TooFew func(job Delayed, have int, err error) error

// AwaitReplicas waits until the stored jobs are on the wanted number of replicas. A job on fewer replicas in time gets the error of tooFew.
func (p *Pipeline) AwaitReplicas(ctx context.Context, tooFew TooFew, all ...Pushed) {
	var most Replicas
	eachStored(all, func(job Delayed, _ *error) {
		most.N, most.Within = max(most.N, job.Replicas.N), max(most.Within, job.Replicas.Within)
	})
	if most.N == 0 {
		return
	}
	have, err := p.awaitReplicas(ctx, most)
	eachStored(all, func(job Delayed, failed *error) {
		if have < job.Replicas.N {
			*failed = tooFew(job, have, err)
		}
	})
}

func eachStored(all []Pushed, do func(job Delayed, err *error)) {
	for _, pushed := range all {
		for i, job := range pushed.Jobs {
			if pushed.Errs[i] == nil {
				do(job, &pushed.Errs[i])
			}
		}
	}
}

var errOtherMaster = errors.New("the master has changed meanwhile")

// awaitReplicas returns the number of replicas that have all writes of this connection; -1 with an error.
func (p *Pipeline) awaitReplicas(ctx context.Context, r Replicas) (have int, err error) {
	if p.Replaced && p.served {
		return -1, errOtherMaster
	}
	for end := time.Now().Add(r.Within); ; {
		if err := errors.Join(ctx.Err(), p.err); err != nil {
			return -1, err
		}
		left := min(time.Until(end), waitFor)
		if have, err = p.wait(r.N, max(left, time.Millisecond)); err != nil {
			return -1, err
		}
		if have >= r.N || left < waitFor {
			return have, nil
		}
	}
}

// wait makes one WAIT. Redis replies when the wait is over, so the connection's own timeout may be too short.
func (p *Pipeline) wait(replicas int, within time.Duration) (have int, err error) {
	have, err = redis.Int(redis.DoWithTimeout(p.conn, within+pongWithin, "WAIT", replicas, milliseconds(within)))
	p.err = p.conn.Err()
	return have, err
}
