package client

import (
	"context"

	"github.com/mix-basic/delayer/internal/coalesce"
	"github.com/mix-basic/delayer/internal/store"
)

// calls are those on a job that share round trips, kind by kind.
type calls struct {
	pushes     *coalesce.Batcher[store.Delayed]
	replicated *coalesce.Batcher[store.Delayed] // pushes that wait for replicas, so that no others wait for these
	grouped    *coalesce.Batcher[store.Delayed] // pushes to groups
	acks       *coalesce.Batcher[store.Held]
	retries    *coalesce.Batcher[store.GivenBack]
	burials    *coalesce.Batcher[store.Burial]
	extensions *coalesce.Batcher[*store.Extension]
	removals   *coalesce.Batcher[string]
	left       *coalesce.Batcher[string] // for what is left in partitions of before
}

func newCalls(o *coalesce.Owner) calls {
	return calls{
		pushes:     coalesce.NewBatcher(o, pushKind),
		replicated: coalesce.NewBatcher(o, replicatedKind),
		grouped:    coalesce.NewBatcher(o, pushBatchKind),
		acks:       coalesce.NewBatcher(o, ackKind),
		retries:    coalesce.NewBatcher(o, retryKind),
		burials:    coalesce.NewBatcher(o, buryKind),
		extensions: coalesce.NewBatcher(o, extendKind),
		removals:   coalesce.NewBatcher(o, removeKind),
		left:       coalesce.NewBatcher(o, leftKind),
	}
}

// of is the partition that the job of that ID belongs to.
func (c *Client) of(id string) *store.Store { return c.partitions.Of(id) }

// The kinds of calls on a job. An ID may be as long as store.MaxID, but 250 of these are no more than 1 MiB.
var (
	pushKind = coalesce.Kind[store.Delayed]{
		Measure: func(job store.Delayed) (id string, bytes int) { return job.ID, len(job.Body) },
		Call:    (*store.Store).Push,
	}
	// pushBatchKind is that of pushes some of which may be to groups. Many may be to one.
	pushBatchKind = coalesce.Kind[store.Delayed]{
		Measure: func(job store.Delayed) (id string, bytes int) {
			if job.IsGrouped() {
				return "", len(job.Body)
			}
			return pushKind.Measure(job)
		},
		Call:  (*store.Store).Push,
		Alike: func(a, b store.Delayed) bool { return a.IsGrouped() == b.IsGrouped() },
	}
	replicatedKind = coalesce.Kind[store.Delayed]{
		Measure: pushBatchKind.Measure,
		Call:    (*store.Store).Push,
		Alike:   func(a, b store.Delayed) bool { return a.Replicas == b.Replicas && pushBatchKind.Alike(a, b) },
		Behind: func(ctx context.Context, p *store.Pipeline, jobs []store.Delayed, errs []error) {
			p.AwaitReplicas(ctx, store.Pushed{Jobs: jobs, Errs: errs})
		},
	}
	ackKind = coalesce.Kind[store.Held]{
		Measure: func(h store.Held) (id string, bytes int) { return h.ID, 0 },
		Call:    (*store.Store).Ack,
	}
	retryKind = coalesce.Kind[store.GivenBack]{
		Measure: func(r store.GivenBack) (id string, bytes int) { return r.ID, len(r.Error) },
		Call:    (*store.Store).Retry,
	}
	buryKind = coalesce.Kind[store.Burial]{
		Measure: func(b store.Burial) (id string, bytes int) { return b.ID, len(b.Reason) + len(b.Error) },
		Call:    (*store.Store).Bury,
	}
	extendKind = coalesce.Kind[*store.Extension]{
		Measure: func(e *store.Extension) (id string, bytes int) { return e.ID, 0 },
		Call:    (*store.Store).Extend,
	}
	leftKind   = coalesce.Kind[string]{Measure: removeKind.Measure, Call: (*store.Store).IsLeft}
	removeKind = coalesce.Kind[string]{
		Measure: func(id string) (string, int) { return id, 0 },
		Call:    func(s *store.Store, ids []string) *store.Call[[]error] { return s.Remove(ids...) },
	}
)
