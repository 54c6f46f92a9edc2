package client

import (
	"context"
	"errors"
	"slices"

	"github.com/mix-basic/delayer/internal/batch"
	"github.com/mix-basic/delayer/internal/store"
)

// Jobs that are left in the partitions of before (WithPartitionsBefore) are brought to where they belong before something is done
// with them by their IDs. Those that are reserved are settled where they are.

// bring has what there is of the job be where it belongs now, whatever state it is in.
func (c *Client) bring(ctx context.Context, id string) error {
	_, err := c.bringAll(ctx, []string{id}, true)
	return err
}

// bringAll is Bring, but looks first, as most IDs are new, or were brought: that is one round trip for many.
func (c *Client) bringAll(ctx context.Context, ids []string, all bool) (reserved map[string]bool, err error) {
	if !c.growing {
		return nil, nil
	}
	elsewhere := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return c.partitions.Before(id) == nil })
	var errs []error
	switch len(elsewhere) {
	case 0:
		return nil, nil
	case 1:
		errs = []error{c.calls.left.Do(ctx, c.partitions.Before(elsewhere[0]), elsewhere[0])}
	default:
		errs = doAll(ctx, c, leftKind, elsewhere, func(i int) int { return slices.Index(c.partitions, c.partitions.Before(elsewhere[i])) })
	}
	var left []string
	for i, err := range errs {
		switch err {
		case nil:
		case ErrExists:
			left = append(left, elsewhere[i])
		default:
			return nil, err
		}
	}
	return c.partitions.Bring(ctx, left, all)
}

// bringForPush is that for jobs which are to be pushed, but for those that a push leaves alone: it returns the IDs of jobs that
// stay where they are, reserved.
func (c *Client) bringForPush(ctx context.Context, jobs []store.Delayed) (stay map[string]bool, err error) {
	var spared, replaced []string
	for _, job := range jobs {
		if job.IsGrouped() {
			spared = append(spared, job.Tag()) // whose job stays if it is reserved
		}
		if job.Policy.Spares() {
			spared = append(spared, job.ID)
		} else if !job.IsGrouped() {
			replaced = append(replaced, job.ID)
		}
	}
	if _, err = c.bringAll(ctx, replaced, true); err == nil {
		stay, err = c.bringAll(ctx, spared, false)
	}
	return stay, err
}

// pushesAt is the place of the partition that a job is pushed to, as one of its ID stays where it is: it follows that.
func (c *Client) pushesAt(id string, stay map[string]bool) int {
	if stay[id] {
		return slices.Index(c.partitions, c.partitions.Before(id))
	}
	return c.partitions.Place(id)
}

// bringUnlessFollowing has a job be where it belongs that was pushed where one of its ID was, and found that gone.
func (c *Client) bringUnlessFollowing(ctx context.Context, id string, did store.Outcome, stay map[string]bool) error {
	if !stay[id] || did == store.DidFollow {
		return nil
	}
	return c.bring(ctx, id)
}

// find reads a job where it belongs or, as long as it is not there, where it belonged before.
func (c *Client) find(ctx context.Context, id string) (store.JobInfo, error) {
	found, err := c.of(id).Get(ctx, id)
	before := c.partitions.Before(id)
	if before == nil || err != nil && !errors.Is(err, ErrNotFound) || err == nil && State(found.State) != Dead {
		return found, err
	}
	earlier, missing := before.Get(ctx, id)
	switch {
	case missing == nil && (err != nil || State(earlier.State) != Dead):
		return earlier, nil
	case missing == nil || err == nil:
		return found, err
	case !errors.Is(missing, ErrNotFound):
		return earlier, missing
	}
	reserved, err := c.bringAll(ctx, []string{id}, false) // it may be on its way
	switch {
	case err != nil:
		return store.JobInfo{}, err
	case reserved[id]:
		return before.Get(ctx, id)
	}
	return c.of(id).Get(ctx, id)
}

// heldAt is the place of the partition where the job is held, and where it may be otherwise, nil if nowhere: it belongs there now, or did
// before. Who has the configuration of before may hold a job that belongs to a partition of which he doesn't know.
func (c *Client) heldAt(d *Delivery) (place int, elsewhere *store.Store) {
	of := c.partitions.Place(d.ID)
	if place = of; d.at != nil { // of another Client's partitions, maybe
		place = slices.IndexFunc(c.partitions, func(s *store.Store) bool { return s.Keys() == d.at.Keys() })
	}
	if place < 0 || place == of {
		return of, c.partitions.Before(d.ID)
	}
	return place, c.partitions[of]
}

// settleAt settles the job where it is held or, if its lease is not held there any more, where it may be otherwise.
func (d *Delivery) settleAt(settle func(*store.Store) error) error {
	if p := d.client.partitions; len(p) == 1 {
		return settle(p[0])
	}
	place, elsewhere := d.client.heldAt(d)
	err := settle(d.client.partitions[place])
	if elsewhere != nil && errors.Is(err, ErrLeaseLost) {
		err = laterOf(err, settle(elsewhere))
	}
	return err
}

// settleAll is that for many deliveries, each with its item, in as few calls as there may be.
func settleAll[T any](ctx context.Context, c *Client, kind batch.Kind[T], deliveries []*Delivery, items []T) []error {
	errs := doAll(ctx, c, kind, items, func(i int) int {
		place, _ := c.heldAt(deliveries[i])
		return place
	})
	lost := map[*store.Store][]int{} // by where they may be otherwise
	for i, err := range errs {
		if !errors.Is(err, ErrLeaseLost) {
			continue
		}
		if _, elsewhere := c.heldAt(deliveries[i]); elsewhere != nil {
			lost[elsewhere] = append(lost[elsewhere], i)
		}
	}
	for elsewhere, places := range lost {
		theirs := each(places, func(i int) T { return items[i] })
		for _, chunk := range kind.Chunks(theirs) {
			settled, err := kind.Call(elsewhere, chunk).Do(ctx)
			if err != nil {
				settled = slices.Repeat([]error{err}, len(chunk))
			}
			for _, err := range settled {
				errs[places[0]] = laterOf(errs[places[0]], err)
				places = places[1:]
			}
		}
	}
	return errs
}

// laterOf is what became of a job whose lease was not held at one place, and of which that is the other one's answer.
func laterOf(err, elsewhere error) error {
	if errors.Is(elsewhere, store.ErrGone) {
		return err
	}
	return elsewhere
}
