package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
)

// Item is a job for PushBatch, due after Delay, which is as in Push, or at At if that is set.
type Item struct {
	Message
	Delay time.Duration
	At    time.Time
	// Options are the job's own options. They precede those of the call.
	Options []PushOption
}

// Result is the result of a push, or for one job of a batch.
type Result struct {
	// ID is the job's.
	ID string
	// Outcome is what a push did. It is empty after errors other than ErrExists and ErrOtherTopic, and for everything but pushes.
	Outcome Outcome
	// Err is why a job of a batch is not stored, or not settled. With [Replicas], it may be a [ReplicasError] although the job is stored.
	Err error
}

// PushBatch is Push and PushAt for many jobs. They go to Redis in chunks of up to 250 jobs or 1 MiB. Each chunk is
// one atomic step: all of its jobs are stored or none, except that a job refused because its ID exists
// (ErrExists, ErrOtherTopic) does not affect the others. The results, in the order of the jobs, say which are stored; the error is nil if all
// are. A chunk of pushes to groups covers as many groups as Redis can write in about 2 ms, or one.
//
// With [Replicas] the call waits once, after all chunks, for the largest number of replicas and the longest
// timeout of all jobs.
//
// Invalid jobs (ErrInvalid) are found before anything is sent. The same ID twice is invalid too, unless it belongs
// to Once in different groups. Up to two chunks are in flight at a time, or one if they are for groups. After an
// error from Redis or the network no further chunk is sent.
//
// With several partitions (PoolOptions.Partitions) each chunk belongs to one, and all this holds for each of them: they are served one after the other, in
// a cluster several at a time, and an error from Redis for one does not stop the others.
func (c *Client) PushBatch(ctx context.Context, jobs []Item, opts ...PushOption) (results []Result, err error) {
	if c != nil && c.hooks.push != nil {
		var done func([]Result, error)
		jobs = slices.Clone(jobs)
		ctx, done = c.pushing(ctx, "push batch", jobs)
		defer func() { done(results, err) }()
	}
	all, wrong := checkBatch(jobs, defaultPush.with(opts))
	err = c.call(ctx, "push batch", "", wrong, func() error {
		results = c.pushAll(ctx, all)
		what := "jobs are not stored"
		if slices.ContainsFunc(results, func(r Result) bool { return r.Err != nil && isStored(r.Err) }) {
			what = "jobs are not stored, or by too few replicas"
		}
		return batchError(what, results)
	})
	return results, err
}

func (c *Client) pushAll(ctx context.Context, jobs []store.Delayed) []Result {
	errs := fleet.PushAll(ctx, pushBatchKind, jobs, func(i int) *store.Store { return c.fleet.Of(jobs[i].ID) }, tooFewReplicas)
	results := make([]Result, len(jobs))
	for i, job := range jobs {
		r := Result{ID: job.StoredID(), Err: errs[i]}
		if isStored(r.Err) || isRefused(r.Err) {
			r.Outcome = outcomes[job.Told.Did]
		}
		results[i] = r
	}
	return results
}

func checkBatch(jobs []Item, o pushOptions) ([]store.Delayed, error) {
	all, told := make([]store.Delayed, len(jobs)), make([]store.Told, len(jobs))
	ids := make(map[string]int, len(jobs))
	for i, job := range jobs {
		due, wrong := dueOf(job)
		own := o.with(job.Options)
		stored, err := newJob(job.Message, due, &own)
		stored.Told = &told[i]
		err = cmp.Or(wrong, err)
		if first, twice := ids[stored.ID]; err == nil && twice && job.ID != "" {
			err = invalid("id", fmt.Sprintf("%s is that of job %d, too", store.Quote(job.ID), first))
		}
		if err != nil {
			return nil, fmt.Errorf("job %d: %w", i, err)
		}
		ids[stored.ID] = i // with the group, for Once counts per group
		all[i] = stored
	}
	return all, nil
}

func dueOf(job Item) (store.Due, error) {
	switch {
	case job.At.IsZero():
		return store.Due{After: max(job.Delay, 0)}, checkDelay(job.Delay)
	case job.Delay != 0:
		return store.Due{}, invalid("delay", "it is set, and so is a time")
	}
	return store.Due{At: job.At}, checkDue(job.At)
}

// batchError says how many items have failed, with the first error that is a cause.
func batchError(what string, results []Result) error {
	failed, cause := 0, Result{}
	for _, r := range results {
		if r.Err != nil {
			failed++
			if cause.Err == nil || errors.Is(cause.Err, ErrOtherFailed) {
				cause = r
			}
		}
	}
	if failed == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d %s: %s: %w", failed, len(results), what, store.Quote(cause.ID), cause.Err)
}
