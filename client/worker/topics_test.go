package worker_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// Jobs of many topics in many partitions cost Redis about as many commands as in one partition: a fetch returns jobs of
// many topics, and probes only if a partition's state is unknown.
func TestCommandsOfTopicsInPartitions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		topics, jobs int
		most         float64 // times the commands of one partition
	}{
		{topics: 1, jobs: 1000, most: 1.5},
		{topics: 50, jobs: 3000, most: 2.5},
	} {
		one, many := commandsAJob(t, 1, c.topics, c.jobs), commandsAJob(t, 16, c.topics, c.jobs)
		t.Logf("%d topics: %.1f commands a job with 16 partitions, %.1f with one", c.topics, many, one)
		if many > c.most*one {
			t.Errorf("want %.1f times as many at most", c.most)
		}
	}
}

// commandsAJob returns the number of Redis commands per ready job that a worker handles.
func commandsAJob(t *testing.T, partitions, topics, jobs int) float64 {
	t.Helper()
	f := &fixture{Server: redistest.Start(t)}
	f.Client = redistest.Must(client.OpenPool(client.PoolOptions{Addr: f.Addr, Partitions: partitions}))
	t.Cleanup(func() { f.Client.Close() })
	var names []string
	batch := make([]client.Item, jobs)
	for i := range topics {
		names = append(names, fmt.Sprint("t", i))
	}
	for i := range batch {
		batch[i].Message = client.Message{ID: fmt.Sprint("j", i), Topic: names[i%topics], Body: "body"}
	}
	_, err := f.PushBatch(t.Context(), batch)
	check(t, err)
	f.Do("CONFIG", "RESETSTAT")
	var handled atomic.Int64
	all := make(chan struct{})
	r := f.run(muxOf(func(context.Context, *worker.Job) error {
		if handled.Add(1) == int64(jobs) {
			close(all)
		}
		return nil
	}, names...), worker.Options{Concurrency: 50})
	redistest.Receive(t, all)
	r.stop() // stop flushes the acknowledgements
	return float64(f.Calls()) / float64(jobs)
}
