package client

import (
	"time"

	"github.com/mix-basic/delayer/internal/coalesce"
	"github.com/mix-basic/delayer/internal/store"
)

// partition is a part of the jobs: today there is one, with all of them. Calls of each kind share
// round trips.
type partition struct {
	store      *store.Store
	pushes     *coalesce.Calls[store.Delayed]
	acks       *coalesce.Calls[store.Held]
	retries    *coalesce.Calls[store.Returned]
	burials    *coalesce.Calls[store.Burial]
	extensions *coalesce.Calls[*extension]
	removals   *coalesce.Calls[*removal]
}

// of is the partition that the job of that ID belongs to.
func (c *Client) of(id string) *partition { return c.partitions[0] }

func newPartition(o *coalesce.Owner, s *store.Store) *partition {
	return &partition{
		store:      s,
		pushes:     coalesce.NewCalls(o, s, pushKind),
		acks:       coalesce.NewCalls(o, s, ackKind),
		retries:    coalesce.NewCalls(o, s, retryKind),
		burials:    coalesce.NewCalls(o, s, buryKind),
		extensions: coalesce.NewCalls(o, s, extendKind),
		removals:   coalesce.NewCalls(o, s, removeKind),
	}
}

// The kinds of calls on a job. An ID may be as long as maxID, but 250 of these are no more than 1 MiB.
var (
	pushKind = coalesce.Kind[store.Delayed]{
		Items:   coalesce.MaxItems,
		Measure: func(job store.Delayed) (id string, bytes int) { return job.ID, len(job.Body) },
		Do:      (*store.Pipeline).Push,
	}
	ackKind = coalesce.Kind[store.Held]{
		Items:   coalesce.MaxItems,
		Measure: func(h store.Held) (id string, bytes int) { return h.ID, 0 },
		Do:      (*store.Pipeline).Ack,
	}
	retryKind = coalesce.Kind[store.Returned]{
		Items:   coalesce.MaxItems,
		Measure: func(r store.Returned) (id string, bytes int) { return r.ID, len(r.Error) },
		Do:      (*store.Pipeline).Retry,
	}
	buryKind = coalesce.Kind[store.Burial]{
		Items:   coalesce.MaxItems,
		Measure: func(b store.Burial) (id string, bytes int) { return b.ID, len(b.Reason) + len(b.Error) },
		Do:      (*store.Pipeline).Bury,
	}
	extendKind = coalesce.Kind[*extension]{
		Items:   coalesce.MaxItems,
		Measure: func(e *extension) (id string, bytes int) { return e.held.ID, 0 },
		Do:      extend,
	}
	removeKind = coalesce.Kind[*removal]{
		// Redis may do without a break what comes in one piece, and to take a job out of a long
		// ready queue is slow.
		Items:   32,
		Measure: func(r *removal) (id string, bytes int) { return r.id, 0 },
		Do:      remove,
	}
)

// extension gives a lease another length.
type extension struct {
	held  store.Held
	lease time.Duration
	end   int64 // what came of it, in Unix µs
}

func extend(p *store.Pipeline, items []*extension) ([]error, error) {
	ends, err := p.Extend(each(items, func(e *extension) store.Extension { return store.Extension{Held: e.held, Lease: e.lease} }))
	if err != nil {
		return nil, err
	}
	errs := make([]error, len(items))
	for i, end := range ends {
		if items[i].end = end; end == 0 {
			errs[i] = ErrLeaseLost
		}
	}
	return errs, nil
}

// removal removes a job.
type removal struct {
	id      string
	removed bool // what came of it
}

func remove(p *store.Pipeline, items []*removal) ([]error, error) {
	removed, errs := p.Remove(each(items, func(r *removal) string { return r.id }))
	for i, r := range items {
		r.removed = removed[i]
	}
	return errs, nil
}

func each[T, U any](items []T, f func(T) U) []U {
	list := make([]U, len(items))
	for i, item := range items {
		list[i] = f(item)
	}
	return list
}
