package fleet

import (
	"context"
	"slices"

	"github.com/mix-basic/delayer/internal/batch"
	"github.com/mix-basic/delayer/internal/store"
)

// pushesInFlight is the number of calls of PushAll in flight to a partition: Redis has the next one while the client writes and reads.
const pushesInFlight = 2

// PushAll pushes the jobs into the partitions that where returns, chunk by chunk, and returns an error for each. A chunk to groups may take several
// calls. After the error of a whole call no further call is sent to the partition, and its jobs that are left get that error; other partitions go on.
func PushAll(ctx context.Context, kind batch.Kind[store.Delayed], jobs []store.Delayed, where func(i int) *store.Store, tooFew store.TooFew) []error {
	errs, parts := make([]error, len(jobs)), Divide(jobs, where)
	answers := make([][]error, len(parts))
	for i, err := range Each(storesOf(parts), func(i int) error {
		answers[i] = slices.Repeat([]error{store.ErrLater}, len(parts[i].Items))
		return parts[i].Store.UntilServed(ctx, func() error { return pushPart(ctx, kind, parts[i], answers[i], tooFew) })
	}) {
		for k, place := range parts[i].Places {
			if errs[place] = err; answers[i] != nil && answers[i][k] != store.ErrLater {
				errs[place] = answers[i][k]
			}
		}
	}
	return errs
}

// pushPart pushes jobs into one partition. errs are store.ErrLater for those that are left. It returns the error of a whole call.
func pushPart(ctx context.Context, kind batch.Kind[store.Delayed], part Chunk[store.Delayed], errs []error, tooFew store.TooFew) error {
	p, err := part.Store.Pipeline(ctx)
	if err != nil {
		return err
	}
	defer p.Close()
	var sent []*store.Call[[]error]
	var theirs [][]error // of the calls
	receive := func() {
		answer, failed := sent[0].Wait(ctx)
		copy(theirs[0], answer)
		sent, theirs = sent[1:], theirs[1:]
		if err == nil || failed != nil && !store.OfOneSlot(failed) { // a lost answer counts more than a refusal, after which all is tried again
			err = failed
		}
	}
	rest := errs
	for _, some := range kind.Chunks(part.Items) {
		own := rest[:len(some)]
		rest = rest[len(some):]
		switch {
		case err != nil || !slices.Contains(own, error(store.ErrLater)):
		case some[0].IsGrouped():
			for len(sent) > 0 {
				receive()
			}
			if err == nil {
				err = pushGroups(ctx, p, part.Store, some, own)
			}
		default:
			sent, theirs = append(sent, part.Store.PushAll(some).Send(p)), append(theirs, own)
			if p.Flush(); len(sent) == pushesInFlight {
				receive()
			}
		}
	}
	for len(sent) > 0 {
		receive()
	}
	p.AwaitReplicas(ctx, tooFew, store.Pushed{Jobs: part.Items, Errs: errs})
	return err
}

// pushGroups pushes jobs to groups, which may take several calls. Each is for as many groups as are likely to be done: the jobs of further ones would be
// sent in vain, and left to another call. One call is made at a time, which keeps the order in each group.
func pushGroups(ctx context.Context, p *store.Pipeline, s *store.Store, jobs []store.Delayed, errs []error) error {
	for most := len(jobs); ; {
		var places []int
		var some []store.Delayed
		groups, done := map[string]bool{}, map[string]bool{}
		for i, job := range jobs {
			if tag := job.Tag(); errs[i] == store.ErrLater && (groups[tag] || len(groups) < most) {
				groups[tag] = true
				places, some = append(places, i), append(some, job)
			}
		}
		if len(some) == 0 {
			return nil
		}
		answer, err := s.PushAll(some).On(ctx, p)
		if err != nil {
			return err
		}
		for k, place := range places {
			if errs[place] = answer[k]; answer[k] != store.ErrLater {
				done[some[k].Tag()] = true
			}
		}
		most = max(2*len(done), 1)
	}
}
