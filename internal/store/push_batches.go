package store

import (
	"cmp"
	"context"
	"slices"
)

// pushesAtATime is the number of calls of PushBatches in flight to a node: Redis has the next one while the client writes and reads. A
// store has one call to groups at a time, which keeps their order.
const pushesAtATime = 2

// PushBatches is PushAll for a batch of each store, and takes several calls for a batch to groups. After err, the error of a whole call,
// no further call is sent, and err is the error of all jobs whose calls failed or were not sent.
func PushBatches(ctx context.Context, stores []*Store, batches [][]Delayed) (results [][]error, err error) {
	lines, all := pipelines{}, make([]*pushing, len(batches))
	defer lines.close()
	for i, jobs := range batches {
		all[i] = &pushing{store: stores[i], jobs: jobs, errs: slices.Repeat([]error{ErrLater}, len(jobs))}
	}
	for err == nil {
		next := nextPushes(all)
		if len(next) == 0 {
			break
		}
		call := func(i int) *Call[[]error] { return next[i].begin() }
		inTurn(ctx, lines, storesOf(next), pushesAtATime, call, func(i int, errs []error, failed error) bool {
			next[i].end(errs)
			err = cmp.Or(err, failed)
			return err == nil
		})
	}
	awaitReplicas(ctx, all)
	for _, p := range all {
		p.giveUp(err)
		results = append(results, p.errs)
	}
	return results, err
}

// pushing is a batch of PushBatches.
type pushing struct {
	store  *Store
	jobs   []Delayed
	errs   []error // ErrLater until a job has been pushed
	groups int     // number of groups per call; 0: all

	call   *Call[[]error] // in flight
	places []int          // of its jobs; nil for all
	by     *Pipeline      // the connection of the last call; nil before the first
}

// nextPushes returns the batches with unpushed jobs, in order: of each store only the first one to groups.
func nextPushes(all []*pushing) (next []*pushing) {
	toGroups := map[*Store]bool{}
	for _, p := range all {
		switch {
		case !slices.Contains(p.errs, ErrLater):
		case !p.jobs[0].IsGrouped():
			next = append(next, p)
		case !toGroups[p.store]:
			toGroups[p.store] = true
			next = append(next, p)
		}
	}
	return next
}

func storesOf(all []*pushing) (stores []*Store) {
	for _, p := range all {
		stores = append(stores, p.store)
	}
	return stores
}

// begin returns the next call: the first one is for all jobs.
func (p *pushing) begin() *Call[[]error] {
	jobs := p.jobs
	if p.groups > 0 {
		p.places, jobs = p.left(), nil
		for _, place := range p.places {
			jobs = append(jobs, p.jobs[place])
		}
	}
	p.call = p.store.PushAll(jobs)
	return p.call
}

// left returns the positions of unpushed jobs for as many groups as a call handles.
func (p *pushing) left() (places []int) {
	tags := map[string]bool{}
	for i, job := range p.jobs {
		if p.errs[i] == ErrLater && (tags[job.Tag()] || len(tags) < p.groups) {
			tags[job.Tag()] = true
			places = append(places, i)
		}
	}
	return places
}

// end stores the reply to the call; it is empty if the call failed.
func (p *pushing) end(errs []error) {
	if p.call != nil {
		p.by, p.call = p.call.pipeline, nil
	}
	tags := map[string]bool{}
	for i, err := range errs {
		if p.places != nil {
			i = p.places[i]
		}
		if p.errs[i] = err; err != ErrLater && p.jobs[i].IsGrouped() {
			tags[p.jobs[i].Tag()] = true
		}
	}
	p.groups = 2 * len(tags) // further ones would be sent in vain and left to another call
}

// giveUp sets the error of the unpushed jobs.
func (p *pushing) giveUp(err error) {
	for i := range p.errs {
		if p.errs[i] == ErrLater {
			p.errs[i] = err
		}
	}
}
