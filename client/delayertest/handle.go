package delayertest

import (
	"testing"

	"github.com/mix-basic/delayer/client/worker"
)

// Handle has the worker handle the topic's next ready job as in production: the job is reserved,
// goes through the middleware to the handler, and is acknowledged, retried, or buried. It returns
// the handler's error. What became of the job is told by Jobs: after nil it is gone.
//
// The error is client.ErrLeaseLost as well if the job was not the worker's any more when the
// handler returned. A handler that calls Forward beyond its lease brings that about.
//
// It fails the test if no job of the topic is ready, or the worker has no handler for it.
func (d *Delayer) Handle(t testing.TB, w *worker.Worker, topic string) error {
	t.Helper()
	job, err := w.RunOne(t.Context(), topic)
	if job == nil {
		t.Fatalf("delayertest: Handle: no job of topic %q was handled: %v; %s", topic, err, d.describe(t, topic))
	}
	return err
}
