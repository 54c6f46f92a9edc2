package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
)

// AckBatch is Ack for many deliveries. They go to Redis 250 at a time, one atomic step each. The
// results are in the order of the deliveries; the error is nil if all are done.
func (c *Client) AckBatch(ctx context.Context, deliveries []*Delivery) ([]Result, error) {
	return c.settleBatch(ctx, "ack batch", deliveries, func(d *Delivery) *settlement {
		if !d.beginToSettle() {
			return nil
		}
		return &settlement{verb: ack, held: d.held()}
	}, (*Delivery).settled)
}

// ExtendBatch is Extend for many deliveries, as AckBatch is Ack. With a lease of 0 each lasts as long
// again as it was to last before, which must be known then.
func (c *Client) ExtendBatch(ctx context.Context, deliveries []*Delivery, lease time.Duration) ([]Result, error) {
	if lease != 0 {
		if err := checkExtension(lease); err != nil {
			return nil, failed("extend batch", "", err)
		}
	}
	if err := checkAll(deliveries); err != nil {
		return nil, failed("extend batch", "", err)
	}
	for _, d := range deliveries {
		if lease == 0 && d.Lease() == 0 {
			return nil, failed("extend batch", d.ID, invalid("lease", "0 is as long as before, which is not known"))
		}
	}
	asked := time.Now()
	return c.settleBatch(ctx, "extend batch", deliveries, func(d *Delivery) *settlement {
		return &settlement{verb: extend, held: d.held(), delay: cmp.Or(lease, d.Lease())}
	}, func(d *Delivery, s *settlement, err error) error { return d.extended(s, asked, err) })
}

// settleBatch settles the deliveries as begin says, which returns nil for one that is settled, and
// has end enter what came of it, which may change the error.
func (c *Client) settleBatch(ctx context.Context, name string, deliveries []*Delivery, begin func(*Delivery) *settlement, end func(*Delivery, *settlement, error) error) ([]Result, error) {
	err := checkAll(deliveries)
	if err == nil {
		err = c.begin(ctx)
	}
	if err != nil {
		return nil, failed(name, "", err)
	}
	defer c.running.Done()
	items := each(deliveries, begin)
	errs := slices.Repeat([]error{ErrLeaseLost}, len(items))
	for _, partition := range c.partitions {
		var places []int
		var theirs []*settlement
		for i, s := range items {
			if s != nil && c.of(s.held.ID) == partition {
				places, theirs = append(places, i), append(theirs, s)
			}
		}
		if len(places) > 0 {
			for k, err := range settleChunks(ctx, partition, theirs) {
				errs[places[k]] = err
			}
		}
	}
	results := make([]Result, len(items))
	failures, first := 0, Result{}
	for i, s := range items {
		results[i] = Result{deliveries[i].ID, errs[i]}
		if s != nil {
			results[i].Err = end(deliveries[i], s, errs[i])
		}
		if results[i].Err != nil {
			if failures++; failures == 1 {
				first = results[i]
			}
		}
	}
	if failures == 0 {
		return results, nil
	}
	return results, failed(name, "", fmt.Errorf("%d of %d jobs: %s: %w", failures, len(results), store.Quote(first.ID), first.Err))
}

func checkAll(deliveries []*Delivery) error {
	for i, d := range deliveries {
		if err := d.check(); err != nil {
			return fmt.Errorf("delivery %d: %w", i, err)
		}
	}
	return nil
}

// settleChunks settles the items, and returns their errors.
func settleChunks(ctx context.Context, partition *partition, items []*settlement) []error {
	errs := make([]error, 0, len(items))
	p, err := partition.store.Pipeline(ctx)
	if err == nil {
		defer p.Close()
	}
	for _, chunk := range settleBounds.Chunks(items) {
		var results []error
		if err == nil {
			results, err = settleAlike(p, chunk[0].verb, chunk)
			if errors.As(err, new(redis.Error)) {
				results, err = slices.Repeat([]error{err}, len(chunk)), nil // of this call alone
			}
		}
		if err != nil {
			results = slices.Repeat([]error{err}, len(chunk))
		}
		errs = append(errs, results...)
	}
	return errs
}
