package client

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// Delayed is a job of PushBatch, due after Delay, or at At if that is set.
type Delayed struct {
	Message
	Delay time.Duration
	At    time.Time
}

// Result is what became of a job of PushBatch: its ID, and why it is not
// stored, nil if it is.
type Result struct {
	ID  string
	Err error
}

// ErrChunk: a job was not stored because another one of its chunk could not be.
var ErrChunk = errors.New("another job of the same chunk can't be stored")

// PushBatch is Push and PushAt for many jobs. They go to Redis in chunks of up
// to 250 jobs or 1 MiB, one atomic step each: all jobs of a chunk are stored, or none.
// The results, in the order of the jobs, say which; the error is nil if all are.
//
// What is wrong with any of the jobs (ErrInvalid; an ID that is there twice is wrong, too) is found before
// anything is sent. Up to two chunks are under way at a time; after an error of Redis
// or the network no further chunk is sent.
func (c *Client) PushBatch(ctx context.Context, jobs []Delayed, opts ...PushOption) ([]Result, error) {
	o := newPushOptions(opts)
	all, err := checkBatch(jobs, o)
	if err != nil {
		return nil, fmt.Errorf("delayer: push batch: %w", err)
	}
	if err := c.begin(ctx); err != nil {
		return nil, fmt.Errorf("delayer: push batch: %w", err)
	}
	defer c.running.Done()

	chunks := chunksOf(all)
	errs, err := c.store.PushBatches(ctx, chunks, store.Terms{Lifetime: o.lifetime, Policy: o.policy, Together: true})
	results := make([]Result, 0, len(all))
	for i, chunk := range chunks {
		results = append(results, chunkResults(chunk, errs[i], err)...)
	}
	return results, batchError(results)
}

// checkBatch is what the store is given, with an ID for each job.
func checkBatch(jobs []Delayed, o pushOptions) ([]store.Delayed, error) {
	all := make([]store.Delayed, len(jobs))
	ids := make(map[string]int, len(jobs))
	for i, job := range jobs {
		due, err := dueOf(job)
		if err == nil {
			err = checkPush(job.Message, o)
		}
		if first, twice := ids[job.ID]; err == nil && twice && job.ID != "" {
			err = invalid("id", fmt.Sprintf("%q is that of job %d, too", job.ID, first))
		}
		if err != nil {
			return nil, fmt.Errorf("job %d: %w", i, err)
		}
		ids[job.ID] = i
		all[i] = store.Delayed{Job: store.Job(job.Message), Due: due}
		if job.ID == "" {
			all[i].ID = newID()
		}
	}
	return all, nil
}

func dueOf(job Delayed) (store.Due, error) {
	switch {
	case job.At.IsZero():
		return store.Due{After: job.Delay}, checkDelay("delay", job.Delay)
	case job.Delay != 0:
		return store.Due{}, invalid("delay", "it is set, and so is a time")
	}
	return store.Due{At: job.At}, checkDue(job.At)
}

// chunksOf divides the jobs into what goes to Redis at once.
func chunksOf(jobs []store.Delayed) [][]store.Delayed {
	var chunks [][]store.Delayed
	first, bytes := 0, 0
	for i, job := range jobs {
		bytes += len(job.Body)
		if i > first && (i-first == maxJobs || bytes > maxBytes) {
			chunks = append(chunks, jobs[first:i])
			first, bytes = i, len(job.Body)
		}
	}
	if first < len(jobs) {
		chunks = append(chunks, jobs[first:])
	}
	return chunks
}

// chunkResults are those of one chunk: errs, unless it was not answered (nil) because of err.
func chunkResults(jobs []store.Delayed, errs []error, err error) []Result {
	results := make([]Result, len(jobs))
	var failed error
	if errs == nil {
		failed = err
	}
	for _, e := range errs {
		if e != nil {
			failed = ErrChunk
		}
	}
	for i, job := range jobs {
		results[i] = Result{job.ID, failed}
		if errs != nil && errs[i] != nil {
			results[i].Err = errs[i]
		}
	}
	return results
}

// batchError sums the results up, with the first error that is a cause.
func batchError(results []Result) error {
	failed, cause := 0, Result{}
	for _, r := range results {
		if r.Err != nil {
			failed++
			if cause.Err == nil || errors.Is(cause.Err, ErrChunk) {
				cause = r
			}
		}
	}
	if failed == 0 {
		return nil
	}
	return fmt.Errorf("delayer: push batch: %d of %d jobs are not stored: %q: %w", failed, len(results), cause.ID, cause.Err)
}

// maxTake bounds what one PopBatch holds in memory only.
const maxTake = 1000

// PopBatch takes up to n of the topic's next ready jobs, 1 to 1,000, and fails with
// ErrEmpty when there is none. As with Pop, jobs taken for a call that is
// cancelled meanwhile are put back.
func (c *Client) PopBatch(ctx context.Context, topic string, n int) ([]Message, error) {
	batch, err := c.popBatch(ctx, topic, n)
	messages := make([]Message, len(batch))
	for i, taken := range batch {
		messages[i] = Message(taken.Job)
	}
	return messages, failed("pop batch", topic, err)
}

func (c *Client) popBatch(ctx context.Context, topic string, n int) ([]store.Taken, error) {
	if err := checkTopics([]string{topic}); err != nil {
		return nil, err
	}
	if n < 1 || n > maxTake {
		return nil, invalid("n", fmt.Sprintf("%d is not from 1 to %d", n, maxTake))
	}
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	if ctx.Done() == nil {
		defer c.running.Done()
		return c.takeBatch(ctx, topic, n)
	}
	type outcome struct {
		batch []store.Taken
		err   error
	}
	var settled atomic.Bool // by whoever comes first: the jobs, or the end of ctx
	got := make(chan outcome, 1)
	go func() {
		defer c.running.Done()
		batch, err := c.takeBatch(ctx, topic, n)
		if settled.CompareAndSwap(false, true) {
			got <- outcome{batch, err}
			return
		}
		c.restoreAll(batch)
	}()
	select {
	case o := <-got:
		return o.batch, o.err
	case <-ctx.Done():
		if settled.CompareAndSwap(false, true) {
			return nil, ctx.Err()
		}
		o := <-got
		return o.batch, o.err
	}
}

// takeBatch takes up to n jobs. An error after the first is the next call's: the
// jobs are there.
func (c *Client) takeBatch(ctx context.Context, topic string, n int) ([]store.Taken, error) {
	batch, ghosts, err := c.store.TakeBatch(ctx, []string{topic}, n)
	c.met(ghosts)
	if len(batch) > 0 {
		err = nil
	}
	return batch, err
}
