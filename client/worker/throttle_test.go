package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client/worker"
)

// Throttle stops delivery of the topic to all consumers. The job is redelivered afterwards, and its attempt does not
// count.
func TestThrottle(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve()
	ctx := t.Context()
	done := make(chan *worker.Job, 2)
	mux := one(func(_ context.Context, job *worker.Job) error {
		paused, err := f.Paused(ctx)
		check(t, err)
		if len(paused) == 0 && len(done) == 0 && job.ID == "a" && job.Token != 0 && f.get("b").State == "" {
			f.push("b", "t") // not delivered before the throttling ends
			return worker.Throttle(300 * time.Millisecond)
		}
		done <- job
		return nil
	})
	began := time.Now()
	f.push("a", "t")
	r := f.run(mux, worker.Options{})
	for range 2 {
		job := <-done
		if job.Attempt != 1 {
			t.Errorf("job %s has its attempt %d", job.ID, job.Attempt)
		}
		if job.ID == "a" && time.Since(began) < 300*time.Millisecond {
			t.Error("it came too early")
		}
	}
	r.stop()
}
