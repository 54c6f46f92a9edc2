package fleet

import (
	"context"
	"fmt"

	"github.com/mix-basic/delayer/internal/store"
)

// LayoutError is returned to a program whose number of partitions differs from the one in Redis. It wraps store.ErrNotAdmitted.
type LayoutError struct {
	Own  int // the program's partitions
	Kept int
	Key  string // that shows Kept
}

// Error names both numbers.
func (e *LayoutError) Error() string {
	if e.Kept == 1 {
		return fmt.Sprintf("partitions is %d here, but there are jobs of a single partition (%s): want partitions = 1, another prefix, or delayer export and import", e.Own, e.Key)
	}
	return fmt.Sprintf("partitions is %d here, but %d in Redis (%s): want the same number in all programs", e.Own, e.Kept, e.Key)
}

// Unwrap returns store.ErrNotAdmitted.
func (e *LayoutError) Unwrap() error { return store.ErrNotAdmitted }

// admit asks partition 0, before the first call, whether the layout is the one in Redis, and stores it if there is none. It returns a LayoutError
// if it is not, and any other error if that is unknown. A program with one partition needs no permission beyond those of its calls: a user
// that may not ask is admitted.
func (f *Fleet) admit(ctx context.Context) (lasting bool, err error) {
	own := len(f.Stores)
	kept, err := f.keeper.Layout(ctx)
	switch {
	case own == 1 && (store.Refused(err) || store.KindOf(err) == store.NotNow):
		return store.Refused(err), nil // the call itself will meet and handle a temporary error
	case err == nil && kept == 0 && own > 1:
		if err = f.refuseJobsOfOne(ctx); err == nil {
			kept, err = f.keeper.KeepLayout(own).Do(ctx)
		}
	}
	if err == nil && kept != own && kept > 0 {
		err = &LayoutError{own, kept, f.keeper.Keys().Layout()}
	}
	return err == nil, err
}

// refuseJobsOfOne fails if there are jobs of a single partition, which a program with several would not see. A user that may not
// check is trusted. A cluster can't hold such jobs.
func (f *Fleet) refuseJobsOfOne(ctx context.Context) error {
	if f.keeper.InCluster() {
		return nil
	}
	size, err := f.single.Size(ctx)
	if size > 0 {
		return &LayoutError{len(f.Stores), 1, f.single.Keys().JobPool()}
	}
	if store.Refused(err) {
		return nil
	}
	return err
}
