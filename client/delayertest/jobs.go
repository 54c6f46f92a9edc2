package delayertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
	"github.com/mix-basic/delayer/internal/duration"
)

// Due returns the topic's job that falls due in this time from Now, and fails the test unless there is exactly one.
// With 0 it returns the ready job. Other jobs are ignored.
func (d *Delayer) Due(t testing.TB, topic string, in time.Duration) client.JobInfo {
	t.Helper()
	if in < 0 {
		t.Fatalf("delayertest: Due in %v: want 0, for a job that is ready, or more", in)
	}
	jobs := d.Jobs(t, topic, client.StateWaiting, client.StateReady)
	due := d.Now().Add(wholeMilliseconds(in))
	found := slices.DeleteFunc(slices.Clone(jobs), func(j client.JobInfo) bool {
		if in == 0 {
			return j.State != client.StateReady
		}
		return j.State != client.StateWaiting || !j.Due.Equal(due)
	})
	if len(found) == 1 {
		return found[0]
	}
	what := fmt.Sprintf("fall due in %s", duration.Format(in))
	if in == 0 {
		what = "are ready"
	}
	t.Fatalf("delayertest: %d jobs of topic %q %s, want one; %s", len(found), topic, what, d.describe(t, topic))
	return client.JobInfo{}
}

// Handle makes the worker handle the topic's next ready job as in production: the job is reserved, passes through the
// middleware to the handler, and is acknowledged, retried or buried. It returns the handler's error. After nil the job
// is gone; otherwise Jobs shows its new state.
//
// The error also matches client.ErrLeaseLost if the lease was lost before the handler returned, for example because the
// handler called Forward past the end of the lease.
//
// Handle fails the test if no job of the topic is ready or the worker has no handler for it.
func (d *Delayer) Handle(t testing.TB, w *worker.Worker, topic string) error {
	t.Helper()
	job, err := w.RunOne(t.Context(), topic)
	if job == nil {
		t.Fatalf("delayertest: Handle: no job of topic %q was handled: %v; %s", topic, err, d.describe(t, topic))
	}
	return err
}

// Jobs returns the topic's jobs in these states, or all of its jobs if no state is given. Ready jobs come first, in the
// order of delivery. Waiting and reserved jobs follow, ordered by due time or end of lease. Dead letters come last,
// newest first; their Due is the time at which they died.
func (d *Delayer) Jobs(t testing.TB, topic string, states ...client.State) []client.JobInfo {
	t.Helper()
	jobs, err := d.jobs(context.Background(), topic)
	if err != nil {
		t.Fatalf("delayertest: Jobs: %v", err)
	}
	return slices.DeleteFunc(jobs, func(j client.JobInfo) bool {
		return len(states) > 0 && !slices.Contains(states, j.State)
	})
}

func (d *Delayer) jobs(ctx context.Context, topic string) ([]client.JobInfo, error) {
	ready, pool, err := d.ids(topic)
	if err != nil {
		return nil, err
	}
	var jobs []client.JobInfo
	seen := map[string]bool{}
	for _, id := range append(ready, pool...) {
		job, err := d.client.Get(ctx, id)
		switch {
		case errors.Is(err, client.ErrNotFound) || seen[id] || job.Topic != topic || job.State == client.StateDead:
		case err != nil:
			return nil, err
		default:
			jobs, seen[id] = append(jobs, job), true
		}
	}
	for letter, err := range d.client.Dead(ctx, topic) {
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, letter)
	}
	return jobs, nil
}

// ids returns the IDs in the topic's ready queue in order of delivery, and the IDs in the pool in due order. Some of
// the jobs may be gone or belong to another topic.
func (d *Delayer) ids(topic string) (ready, pool []string, err error) {
	conn := d.pool.Get()
	defer conn.Close()
	for _, queue := range []string{d.store.Keys().PausedQueue(topic), d.store.Keys().ReadyQueue(topic)} {
		ids, err := redis.Strings(conn.Do("LRANGE", queue, 0, -1))
		if err != nil {
			return nil, nil, err
		}
		slices.Reverse(ids)
		ready = append(ready, ids...)
	}
	pool, err = redis.Strings(conn.Do("ZRANGE", d.store.Keys().JobPool(), 0, -1))
	return ready, pool, err
}

// mostDescribed is the maximum number of jobs in a message.
const mostDescribed = 10

// describe lists the topic's jobs for a message.
func (d *Delayer) describe(t testing.TB, topic string) string {
	t.Helper()
	jobs := d.Jobs(t, topic)
	if len(jobs) == 0 {
		return "the topic has no jobs" + d.describeTopics()
	}
	var lines []string
	for _, job := range jobs[:min(len(jobs), mostDescribed)] {
		lines = append(lines, d.describeJob(job))
	}
	if more := len(jobs) - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return "its jobs:\n\t" + strings.Join(lines, "\n\t")
}

func (d *Delayer) describeJob(job client.JobInfo) string {
	in := job.Due.Sub(d.Now())
	switch job.State {
	case client.StateWaiting:
		return fmt.Sprintf("%q falls due in %s", job.ID, duration.Format(in))
	case client.StateReserved:
		return fmt.Sprintf("%q is reserved for %s", job.ID, duration.Format(in.Round(time.Millisecond)))
	case client.StateDead:
		return fmt.Sprintf("%q is a dead letter: %s", job.ID, job.Reason)
	}
	return fmt.Sprintf("%q is ready", job.ID)
}

// describeTopics lists the topics with jobs, because the name may be misspelt.
func (d *Delayer) describeTopics() string {
	stats, err := d.client.Stats(context.Background())
	if err != nil || len(stats.Topics) == 0 {
		return ", and nothing was pushed"
	}
	names := make([]string, len(stats.Topics))
	for i, topic := range stats.Topics {
		names[i] = fmt.Sprintf("%q", topic.Topic)
	}
	return "; topics that were pushed to: " + strings.Join(names, ", ")
}
