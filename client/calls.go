package client

import (
	"context"

	"github.com/mix-basic/delayer/internal/batch"
	"github.com/mix-basic/delayer/internal/store"
)

type calls struct {
	pushes     *batch.Batcher[store.Delayed]
	replicated *batch.Batcher[store.Delayed] // pushes that wait for replicas, so that no others wait for these
	grouped    *batch.Batcher[store.Delayed] // pushes to groups
	acks       *batch.Batcher[store.LeaseRef]
	retries    *batch.Batcher[store.Returned]
	burials    *batch.Batcher[store.Burial]
	extensions *batch.Batcher[*store.Extension]
	removals   *batch.Batcher[*store.Removal]
}

func newCalls(o *batch.Owner) calls {
	return calls{
		pushes:     batch.NewBatcher(o, pushKind),
		replicated: batch.NewBatcher(o, replicatedKind),
		grouped:    batch.NewBatcher(o, pushBatchKind),
		acks:       batch.NewBatcher(o, ackKind),
		retries:    batch.NewBatcher(o, retryKind),
		burials:    batch.NewBatcher(o, buryKind),
		extensions: batch.NewBatcher(o, extendKind),
		removals:   batch.NewBatcher(o, removeKind),
	}
}

// The kinds of calls on a job. An ID may be as long as store.MaxID, but 250 of these are no more than 1 MiB.
var (
	pushKind = batch.Kind[store.Delayed]{
		Measure: func(job store.Delayed) (id string, bytes int) { return job.ID, len(job.Body) },
		Call:    (*store.Store).Push,
	}
	// pushBatchKind is for pushes some of which may be to groups, any number to one group.
	pushBatchKind = batch.Kind[store.Delayed]{
		Measure: func(job store.Delayed) (id string, bytes int) {
			if job.IsGrouped() {
				return "", len(job.Body)
			}
			return pushKind.Measure(job)
		},
		Call:  (*store.Store).Push,
		Alike: func(a, b store.Delayed) bool { return a.IsGrouped() == b.IsGrouped() },
	}
	replicatedKind = batch.Kind[store.Delayed]{
		Measure: pushBatchKind.Measure,
		Call:    (*store.Store).Push,
		Alike:   func(a, b store.Delayed) bool { return a.Replicas == b.Replicas && pushBatchKind.Alike(a, b) },
		Behind: func(ctx context.Context, p *store.Pipeline, jobs []store.Delayed, errs []error) {
			p.AwaitReplicas(ctx, tooFewReplicas, store.Pushed{Jobs: jobs, Errs: errs})
		},
	}
	ackKind = batch.Kind[store.LeaseRef]{
		Measure: func(h store.LeaseRef) (id string, bytes int) { return h.ID, 0 },
		Call:    (*store.Store).Ack,
	}
	retryKind = batch.Kind[store.Returned]{
		Measure: func(r store.Returned) (id string, bytes int) { return r.ID, len(r.Error) },
		Call:    (*store.Store).Retry,
	}
	buryKind = batch.Kind[store.Burial]{
		Measure: func(b store.Burial) (id string, bytes int) { return b.ID, len(b.Reason) + len(b.Error) },
		Call:    (*store.Store).Bury,
	}
	extendKind = batch.Kind[*store.Extension]{
		Measure: func(e *store.Extension) (id string, bytes int) { return e.ID, 0 },
		Call:    (*store.Store).Extend,
	}
	removeKind = batch.Kind[*store.Removal]{
		Measure: func(r *store.Removal) (id string, bytes int) { return r.ID, 0 },
		Call:    (*store.Store).Remove,
	}
)
