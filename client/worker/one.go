package worker

import (
	"context"
	"errors"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
)

// RunOne handles the topic's next ready job as Run does, in the caller's goroutine, and
// returns when Redis knows the result. It does not wait for a job. It is for a program that is
// started for each job, and for tests: see package delayertest.
//
// It returns the job and the handler's error; that is client.ErrLeaseLost as well if the lease was
// lost meanwhile, or Redis could not be told of the result. If the job is nil, none was handled,
// and the error says why: client.ErrEmpty if none is ready, client.ErrInvalid if the topic has no
// handler or the worker is wrong.
//
// The end of ctx ends the handler's context. If the handler returns an error then, the job is
// given back without counting as an attempt. Run and RunOne calls may overlap.
func (w *Worker) RunOne(ctx context.Context, topic string) (*Job, error) {
	r, err := w.newRun(ctx)
	if err != nil {
		return nil, err
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
	t := r.enter(list[0])
	r.running++
	r.mu.Unlock()
	err = t.do()
	if t.untold {
		err = errors.Join(err, client.ErrLeaseLost)
	}
	return t.job, err
}
