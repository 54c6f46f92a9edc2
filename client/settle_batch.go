package client

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/batch"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
)

// AckBatch is Ack for many deliveries. They go to Redis 250 at a time, each part in one atomic step. The results
// are in the order of the deliveries; the error is nil if all succeeded.
func (c *Client) AckBatch(ctx context.Context, deliveries []*Delivery) ([]Result, error) {
	return c.settleBatch(ctx, "ack batch", deliveries, checkAll(deliveries), func() []error {
		errs := slices.Repeat([]error{ErrLeaseLost}, len(deliveries))
		places, begun := pick(deliveries, (*Delivery).beginToSettle)
		for i, err := range settleAll(ctx, c, ackKind, begun, each(begun, (*Delivery).held)) {
			errs[places[i]] = begun[i].settled(begun[i].acked(err))
		}
		return errs
	})
}

// ExtendBatch is Extend for many deliveries. A lease of 0 extends each by its last lease, which must be known.
func (c *Client) ExtendBatch(ctx context.Context, deliveries []*Delivery, lease time.Duration) ([]Result, error) {
	wrong := checkAll(deliveries)
	if lease != 0 {
		wrong = cmp.Or(checkExtension(lease), wrong)
	}
	for i, d := range deliveries {
		if wrong == nil && lease == 0 && d.Lease() == 0 {
			wrong = fmt.Errorf("delivery %d: %w", i, invalid("lease", "0 means the last lease, which is not known"))
		}
	}
	return c.settleBatch(ctx, "extend batch", deliveries, wrong, func() []error {
		asked := time.Now()
		extensions := each(deliveries, func(d *Delivery) *store.Extension { return d.extension(cmp.Or(lease, d.Lease())) })
		errs := settleAll(ctx, c, extendKind, deliveries, extensions)
		for i, d := range deliveries {
			errs[i] = d.extended(extensions[i], asked, errs[i])
		}
		return errs
	})
}

// settleAll settles many deliveries, each with its item, in as few calls as possible.
func settleAll[T any](ctx context.Context, c *Client, kind batch.Kind[T], deliveries []*Delivery, items []T) []error {
	job := func(i int) (id string, at *store.Store) { return deliveries[i].ID, deliveries[i].at }
	if c.previous != nil {
		return fleet.SettleAll(ctx, c.previous, kind, items, job)
	}
	return fleet.DoAll(ctx, kind, items, func(i int) *store.Store {
		id, at := job(i)
		return c.fleet.Held(id, at)
	})
}

// settleBatch settles the deliveries with do, which returns an error for each, unless an argument is wrong.
func (c *Client) settleBatch(ctx context.Context, name string, deliveries []*Delivery, wrong error, do func() []error) (results []Result, err error) {
	err = c.call(ctx, name, "", wrong, func() error {
		results = make([]Result, len(deliveries))
		for i, err := range do() {
			results[i] = Result{ID: deliveries[i].ID, Err: err}
		}
		return batchError("jobs", results)
	})
	return results, err
}

func checkAll(deliveries []*Delivery) error {
	for i, d := range deliveries {
		if err := d.check(); err != nil {
			return fmt.Errorf("delivery %d: %w", i, err)
		}
	}
	return nil
}

// pick returns the items to keep, and their places.
func pick[T any](items []T, keep func(T) bool) (places []int, kept []T) {
	for i, item := range items {
		if keep(item) {
			places, kept = append(places, i), append(kept, item)
		}
	}
	return places, kept
}

func each[T, U any](items []T, f func(T) U) []U {
	list := make([]U, len(items))
	for i, item := range items {
		list[i] = f(item)
	}
	return list
}
