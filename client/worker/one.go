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
		return nil, invalid("topic", store.Quote(topic)+" has no handler")
	}
	list, err := r.fetchOne(ctx, topic)
	if err != nil {
		return nil, err
	}
	lost := false
	hook := r.options.Hooks.LeaseLost
	r.options.Hooks.LeaseLost = func(job *Job) {
		lost = true
		if hook != nil {
			hook(job)
		}
	}
	job, err := r.one(ctx, s, list[0])
	if lost {
		err = errors.Join(err, client.ErrLeaseLost)
	}
	return job, err
}

// one handles one job, until ctx is done.
func (r *run) one(ctx context.Context, s *served, d *client.Delivery) (*Job, error) {
	defer r.open(ctx)()
	defer context.AfterFunc(ctx, func() { r.interrupt(errStopping) })()
	t := newTask(r, s, d)
	r.mu.Lock()
	r.tasks[t] = true
	s.held++
	r.running++
	r.mu.Unlock()
	signal(r.renewed)
	return t.job, t.do()
}
