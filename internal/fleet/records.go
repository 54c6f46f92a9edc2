package fleet

import (
	"context"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// EachRecord calls do with all that the partitions have, see Store.EachRecord, one partition after the other.
func (f *Fleet) EachRecord(ctx context.Context, do func(store.Record) error) error {
	for i, s := range f.Stores {
		if err := s.EachRecord(ctx, do); err != nil {
			return f.Named(i, err)
		}
	}
	return nil
}

// Restore stores Records where they belong, in order, and returns how many of them did not exist, also with an error. The others stay as they
// are. With look it changes nothing.
func (f *Fleet) Restore(ctx context.Context, records []store.Record, look bool) (stored int, err error) {
	for _, part := range Divide(records, func(i int) *store.Store { return f.Of(records[i].ID) }) {
		for _, some := range store.RecordChunks(part.Items) {
			are, err := part.Store.Restore(some, look).Do(ctx)
			if err != nil {
				return stored, err
			}
			for _, is := range are {
				if is {
					stored++
				}
			}
		}
	}
	return stored, nil
}

// RestorePause pauses the topic until then, zero for no end, unless that is over or an operator has paused it. With look it changes nothing.
func (f *Fleet) RestorePause(ctx context.Context, p store.Pause, look bool) (stored bool, err error) {
	now, err := f.Stores[0].Time(ctx)
	if err != nil {
		return false, err
	}
	var left time.Duration
	if !p.Until.IsZero() {
		if left = p.Until.Sub(now); left <= 0 {
			return false, nil
		}
	}
	all, err := f.Paused(ctx)
	if err != nil || slices.ContainsFunc(all, func(was store.Pause) bool { return was.Topic == p.Topic && !was.Since.IsZero() }) {
		return false, err
	}
	if look {
		return true, nil
	}
	return true, f.Pause(ctx, p.Topic, left, p.Note)
}
