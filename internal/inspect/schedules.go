package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
)

// Schedules are all schedules, by name; of several partitions those of the ones that can be read.
type Schedules struct {
	// Time is Redis's.
	Time time.Time
	List []store.Scheduled
	// Broken is why some partitions can't be read; nil if all can.
	Broken error
}

// Schedules reads the schedules. It costs Redis some microseconds each.
func (o *Inspector) Schedules(ctx context.Context) (Schedules, error) {
	failed := make(failures, len(o.fleet.Stores))
	parts := make([]store.Schedules, len(failed))
	o.each(ctx, failed, func(ctx context.Context, i int, s *store.Store) (err error) {
		parts[i], err = s.Schedules(ctx)
		return err
	})
	if err := failed.all(); err != nil {
		return Schedules{}, fmt.Errorf("schedules: %w", err)
	}
	all := Schedules{List: fleet.JoinSchedules(parts), Broken: failed.any()}
	for _, part := range parts {
		if part.Now.After(all.Time) {
			all.Time = part.Now
		}
	}
	return all, nil
}
