package fleet

import (
	"context"
	"slices"

	"github.com/mix-basic/delayer/internal/batch"
	"github.com/mix-basic/delayer/internal/store"
)

// pushesInFlight is the number of calls of PushAll in flight to a Redis: it has the next one while the client writes and reads. A store has one call to
// groups at a time, which keeps their order.
const pushesInFlight = 2

// PushAll pushes the jobs into the partitions that where returns, chunk by chunk, and returns an error for each. A chunk to groups may take several
// calls. After the error of a whole call no further call is sent, and the jobs that are left get that error; in a cluster the other partitions go on.
func PushAll(ctx context.Context, kind batch.Kind[store.Delayed], jobs []store.Delayed, where func(i int) *store.Store, tooFew store.TooFew) []error {
	errs, chunks := make([]error, len(jobs)), Chunks(kind, jobs, where)
	ByRedis(storesOf(chunks), func(places []int) {
		some := make([]*pushing, len(places))
		for k, i := range places {
			some[k] = &pushing{store: chunks[i].Store, jobs: chunks[i].Items, errs: slices.Repeat([]error{store.ErrLater}, len(chunks[i].Items))}
		}
		err := some[0].store.UntilServed(ctx, func() error { return pushSome(ctx, some, tooFew) })
		for k, i := range places {
			for n, place := range chunks[i].Places {
				if errs[place] = some[k].errs[n]; errs[place] == store.ErrLater {
					errs[place] = err
				}
			}
		}
	})
	return errs
}

// pushSome pushes chunks into partitions of one Redis. It returns the error of a whole call, after which jobs are left.
func pushSome(ctx context.Context, all []*pushing, tooFew store.TooFew) error {
	p, err := all[0].store.Pipeline(ctx)
	if err != nil {
		return err
	}
	defer p.Close()
	for err == nil {
		next := nextPushes(all)
		if len(next) == 0 {
			break
		}
		inTurn(ctx, p, len(next), pushesInFlight, func(k int) *store.Call[[]error] { return next[k].begin() }, func(k int, errs []error, failed error) bool {
			next[k].end(errs)
			if err == nil || failed != nil && !store.OfOneSlot(failed) { // a lost answer counts more than a refusal, after which all is tried again
				err = failed
			}
			return err == nil
		})
	}
	var stored []store.Pushed
	for _, c := range all {
		stored = append(stored, store.Pushed{Jobs: c.jobs, Errs: c.errs})
	}
	p.AwaitReplicas(ctx, tooFew, stored...)
	return err
}

// pushing is a chunk that is being pushed.
type pushing struct {
	store  *store.Store
	jobs   []store.Delayed
	errs   []error // store.ErrLater until a job has been pushed
	groups int     // number of groups per call; 0: all
	places []int   // of the jobs of the call in flight; nil for all
}

// nextPushes returns the chunks with unpushed jobs, in order: of each store only the first one to groups.
func nextPushes(all []*pushing) (next []*pushing) {
	toGroups := map[*store.Store]bool{}
	for _, c := range all {
		switch {
		case !slices.Contains(c.errs, error(store.ErrLater)):
		case !c.jobs[0].IsGrouped():
			next = append(next, c)
		case !toGroups[c.store]:
			toGroups[c.store] = true
			next = append(next, c)
		}
	}
	return next
}

// begin returns the next call: the first one is for all jobs.
func (c *pushing) begin() *store.Call[[]error] {
	jobs := c.jobs
	if c.groups > 0 {
		c.places, jobs = c.left(), nil
		for _, place := range c.places {
			jobs = append(jobs, c.jobs[place])
		}
	}
	return c.store.PushAll(jobs)
}

// left returns the positions of unpushed jobs for as many groups as a call handles.
func (c *pushing) left() (places []int) {
	tags := map[string]bool{}
	for i, job := range c.jobs {
		if c.errs[i] == store.ErrLater && (tags[job.Tag()] || len(tags) < c.groups) {
			tags[job.Tag()] = true
			places = append(places, i)
		}
	}
	return places
}

// end stores the reply to the call; it is empty if the call failed.
func (c *pushing) end(errs []error) {
	tags := map[string]bool{}
	for i, err := range errs {
		if c.places != nil {
			i = c.places[i]
		}
		if c.errs[i] = err; err != store.ErrLater && c.jobs[i].IsGrouped() {
			tags[c.jobs[i].Tag()] = true
		}
	}
	c.groups = 2 * len(tags) // further ones would be sent in vain and left to another call
}
