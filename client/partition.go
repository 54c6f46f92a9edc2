package client

import (
	"context"

	"github.com/mix-basic/delayer/internal/coalesce"
	"github.com/mix-basic/delayer/internal/store"
)

// partition is a part of the jobs, often of all of them. Calls of each kind share
// round trips.
type partition struct {
	store      *store.Store
	pushes     *coalesce.Batcher[store.Delayed]
	replicated *coalesce.Batcher[store.Delayed] // pushes that wait for replicas, so that no others wait for these
	acks       *coalesce.Batcher[store.Held]
	retries    *coalesce.Batcher[store.GivenBack]
	burials    *coalesce.Batcher[store.Burial]
	extensions *coalesce.Batcher[*store.Extension]
	removals   *coalesce.Batcher[string]
}

// of is the partition that the job of that ID belongs to.
func (c *Client) of(id string) *partition {
	return c.partitions[store.PartitionOf(id, len(c.partitions))]
}

// stores are those of all partitions.
func (c *Client) stores() store.Partitions {
	return each(c.partitions, func(p *partition) *store.Store { return p.store })
}

func newPartition(o *coalesce.Owner, s *store.Store) *partition {
	return &partition{
		store:      s,
		pushes:     coalesce.NewBatcher(o, s, pushKind),
		replicated: coalesce.NewBatcher(o, s, replicatedKind),
		acks:       coalesce.NewBatcher(o, s, ackKind),
		retries:    coalesce.NewBatcher(o, s, retryKind),
		burials:    coalesce.NewBatcher(o, s, buryKind),
		extensions: coalesce.NewBatcher(o, s, extendKind),
		removals:   coalesce.NewBatcher(o, s, removeKind),
	}
}

// The kinds of calls on a job. An ID may be as long as maxID, but 250 of these are no more than 1 MiB.
var (
	pushKind = coalesce.Kind[store.Delayed]{
		Measure: func(job store.Delayed) (id string, bytes int) { return job.ID, len(job.Body) },
		Call:    (*store.Store).Push,
	}
	replicatedKind = coalesce.Kind[store.Delayed]{
		Measure: pushKind.Measure,
		Call:    (*store.Store).Push,
		Alike:   func(a, b store.Delayed) bool { return a.Replicas == b.Replicas },
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
	removeKind = coalesce.Kind[string]{
		Measure: func(id string) (string, int) { return id, 0 },
		Call:    func(s *store.Store, ids []string) *store.Call[[]error] { return s.Remove(ids[0]) },
		Apart:   true, // to take a job out of a long ready queue is slow
	}
)
