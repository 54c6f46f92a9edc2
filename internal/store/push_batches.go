package store

import (
	"cmp"
	"context"
	"slices"
)

// pushesAtATime is how many calls of PushBatches are under way to a node: when Redis is done with one it finds the
// next, while the client writes and reads. Of those to groups of a store there is one at a time, so that their order stays.
const pushesAtATime = 2

// PushBatches is PushAll for several batches, each of which goes to a store; one to groups, in as many calls as it takes. After an error of a whole
// call, which is err, no further one is sent, and it is that of all jobs whose calls failed, or were not sent.
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
	errs   []error // theirs; ErrLater as long as there is none
	groups int     // how many of them a call goes to; 0: all

	call   *Call[[]error] // that is under way
	places []int          // of its jobs; nil for all
	by     *Pipeline      // the connection of the last one; nil if there was none
}

// nextPushes are the batches with jobs to be pushed, in their order: of each store only the first of those to groups.
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

// begin is the next call: the first one is for all jobs.
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

// left are the places of jobs that are to be pushed, to as many groups as a call goes to.
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

// end notes the answers to the call; none if it failed.
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
	p.groups = 2 * len(tags) // what is for another call was sent for nothing
}

// giveUp gives the error to the jobs that were not pushed.
func (p *pushing) giveUp(err error) {
	for i := range p.errs {
		if p.errs[i] == ErrLater {
			p.errs[i] = err
		}
	}
}
