package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
)

// RunOne handles the topic's next ready job like Run, in the caller's goroutine, and returns when the result
// is stored. It does not wait for a job. Use it in programs that are started per job, and in tests: see
// package delayertest.
//
// It returns the job and the handler's error, which is also client.ErrLeaseLost if the lease was lost
// or the result could not be stored. A nil job means that none was handled, and the error tells
// why: client.ErrEmpty if none is ready, client.ErrInvalid if the topic has no handler or the worker is
// misconfigured.
//
// When ctx ends, the handler's context ends. If the handler then returns an error, the job is released and
// the attempt does not count. Calls of Run and RunOne may overlap.
func (w *Worker) RunOne(ctx context.Context, topic string) (*Job, error) {
	r, err := w.newRun(ctx)
	if err != nil {
		return nil, fmt.Errorf("delayer: run one: %w", err)
	}
	s := r.byName[topic]
	if s == nil {
		return nil, invalid("topic", "%s has no handler", store.Quote(topic))
	}
	list, err := r.fetchOne(ctx, s)
	if err != nil {
		return nil, err
	}
	defer r.open(ctx)()
	defer context.AfterFunc(ctx, func() { r.interrupt(errStopping) })()
	r.mu.Lock()
	t := r.add(list[0])
	r.running++
	t.started()
	r.mu.Unlock()
	err = t.do()
	r.underWay.Wait() // a handler that was given up is settled elsewhere
	if t.untold {
		err = errors.Join(err, client.ErrLeaseLost)
	}
	return t.job, err
}
