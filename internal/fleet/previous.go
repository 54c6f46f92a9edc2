package fleet

import (
	"context"
	"errors"
	"slices"

	"github.com/mix-basic/delayer/internal/batch"
	"github.com/mix-basic/delayer/internal/store"
)

// Previous makes calls by ID while jobs may be left in old partitions, those of the previous layout. It exists only then.
//
// Before a call changes a job, the job migrates to the partition where it belongs. A reserved job stays until it is settled,
// unless the call ends its lease anyway. Most IDs are new or migrated long ago, so Previous checks first, in a batch that many calls share.
type Previous struct {
	*Fleet
	left *batch.Batcher[string]
}

// Previous returns the decorator for the owner's calls; nil if there is no previous layout.
func (f *Fleet) Previous(o *batch.Owner) *Previous {
	if f.Layout.Previous == 0 {
		return nil
	}
	return &Previous{f, batch.NewBatcher(o, leftKind)}
}

// leftKind asks whether anything of an ID is left: ErrExists if so.
var leftKind = batch.Kind[string]{
	Measure: func(id string) (string, int) { return id, 0 },
	Call:    (*store.Store).IsLeft,
}

// Migrate moves the job, in any state, to the partition where it belongs.
func (p *Previous) Migrate(ctx context.Context, id string) error {
	_, err := p.migrate(ctx, []string{id}, true)
	return err
}

// MigrateFree is Migrate for jobs that are not reserved and for dead letters. It returns the IDs of reserved jobs, which stay.
func (p *Previous) MigrateFree(ctx context.Context, ids ...string) (reserved map[string]bool, err error) {
	return p.migrate(ctx, ids, false)
}

func (p *Previous) migrate(ctx context.Context, ids []string, all bool) (reserved map[string]bool, err error) {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return p.OldOf(id) == nil })
	var errs []error
	switch len(ids) {
	case 0:
		return nil, nil
	case 1:
		errs = []error{p.left.Do(ctx, p.OldOf(ids[0]), ids[0])}
	default:
		errs = DoAll(ctx, leftKind, ids, func(i int) *store.Store { return p.OldOf(ids[i]) })
	}
	var left []string
	for i, err := range errs {
		switch err {
		case nil:
		case store.ErrExists:
			left = append(left, ids[i])
		default:
			return nil, err
		}
	}
	return p.MigrateJobs(ctx, left, all)
}

// Push pushes jobs of which something may be left in old partitions: those that known reports. A push that spares reserved jobs goes to the old partition
// if its ID is reserved there, so that it can follow that job or be refused. push pushes jobs, each to the partition that at returns.
func (p *Previous) Push(ctx context.Context, jobs []store.Delayed, known func(i int) bool, push func(jobs []store.Delayed, at func(i int) *store.Store) []error) []error {
	reserved, err := p.makeRoom(ctx, jobs, known)
	if err != nil {
		return slices.Repeat([]error{err}, len(jobs))
	}
	errs := make([]error, len(jobs))
	var pushed []store.Delayed
	var places []int
	for i, job := range jobs {
		if reserved[job.ID] && job.Policy.Refuses() {
			job.Told.Did, errs[i] = store.DidRefuse, store.ErrExists
			continue
		}
		pushed, places = append(pushed, job), append(places, i)
	}
	at := func(i int) *store.Store {
		id := pushed[i].ID
		if reserved[id] {
			return p.OldOf(id)
		}
		return p.Of(id)
	}
	for k, err := range push(pushed, at) {
		job := pushed[k]
		if err == nil && reserved[job.ID] && job.Told.Did != store.DidFollow { // the reserved job is gone
			err = p.Migrate(ctx, job.ID)
		}
		errs[places[k]] = err
	}
	return errs
}

// makeRoom migrates the jobs and groups of the pushes, and returns the reserved ones that stay because the push spares them.
func (p *Previous) makeRoom(ctx context.Context, jobs []store.Delayed, known func(i int) bool) (reserved map[string]bool, err error) {
	var spared, replaced []string
	for i, job := range jobs {
		if !known(i) {
			continue
		}
		if job.IsGrouped() {
			spared = append(spared, job.Tag()) // a reserved group gets no more
		}
		if job.Policy.Spares() {
			spared = append(spared, job.ID)
		} else if !job.IsGrouped() {
			replaced = append(replaced, job.ID)
		}
	}
	if _, err = p.migrate(ctx, replaced, true); err != nil {
		return nil, err
	}
	return p.MigrateFree(ctx, spared...)
}

// Get reads a job, or else a dead letter, wherever it is.
func (p *Previous) Get(ctx context.Context, id string) (store.JobInfo, error) {
	of, old := p.Of(id), p.OldOf(id)
	found, err := of.Get(ctx, id)
	if old == nil || err != nil && !errors.Is(err, store.ErrNotFound) || err == nil && !isDead(found) {
		return found, err
	}
	earlier, missing := old.Get(ctx, id)
	switch {
	case missing == nil && (err != nil || !isDead(earlier)):
		return earlier, nil
	case missing == nil || err == nil:
		return found, err
	case !errors.Is(missing, store.ErrNotFound):
		return earlier, missing
	}
	reserved, err := p.MigrateFree(ctx, id) // it may be in transit
	switch {
	case err != nil:
		return store.JobInfo{}, err
	case reserved[id]:
		return old.Get(ctx, id)
	}
	return of.Get(ctx, id)
}

func isDead(job store.JobInfo) bool { return job.State == "dead" }

// Requeue requeues a dead letter. If a job with its ID is reserved in an old partition, it changes nothing and returns ErrExists,
// or ErrNotFound if there is no letter.
func (p *Previous) Requeue(ctx context.Context, id string, requeue func(*store.Store) error) error {
	reserved, err := p.MigrateFree(ctx, id)
	if err != nil || !reserved[id] {
		if err == nil {
			err = requeue(p.Of(id))
		}
		return err
	}
	if found, err := p.Of(id).Get(ctx, id); err == nil && isDead(found) {
		return store.ErrExists
	}
	return store.ErrNotFound
}

// Settle settles a job where its lease is (see Held) or, if it is lost there, in the other partition where it may be: it may have moved
// meanwhile or, if at is unknown, may not have moved yet.
func (p *Previous) Settle(id string, at *store.Store, settle func(*store.Store) error) error {
	place, other := p.Held(id, at), p.Of(id)
	if place == other {
		other = p.OldOf(id)
	}
	err := settle(place)
	if other != nil && errors.Is(err, store.ErrLeaseLost) {
		if later := settle(other); !errors.Is(later, store.ErrGone) {
			return later
		}
	}
	return err
}
