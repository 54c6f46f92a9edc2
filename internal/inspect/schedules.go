package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
)

// Schedules are all schedules of the readable partitions, sorted by name.
type Schedules struct {
	// Time is Redis's clock.
	Time time.Time
	List []store.Scheduled
	// Broken says why some partitions cannot be read; nil if all can.
	Broken error
}

// Schedules reads the schedules. It costs Redis a few microseconds for each.
func (o *Inspector) Schedules(ctx context.Context) (Schedules, error) {
	failed := o.none()
	parts, err := gather(ctx, o, failed, func(ctx context.Context, _ int, s *store.Store) (store.Schedules, error) { return s.Schedules(ctx) })
	if err != nil {
		return Schedules{}, fmt.Errorf("read schedules: %w", err)
	}
	all := Schedules{List: fleet.JoinSchedules(parts), Broken: failed.any()}
	for _, part := range parts {
		if part.Now.After(all.Time) {
			all.Time = part.Now
		}
	}
	return all, nil
}

// ScheduleStates are the numbers of schedules.
type ScheduleStates = store.ScheduleStates

// ScheduleStates reads them from the readable partitions. It costs Redis about a microsecond for each schedule.
func (o *Inspector) ScheduleStates(ctx context.Context) (all ScheduleStates, err error) {
	parts, err := gather(ctx, o, o.none(), func(ctx context.Context, _ int, s *store.Store) (ScheduleStates, error) {
		return s.ScheduleStates(ctx)
	})
	if err != nil {
		return all, fmt.Errorf("read schedules: %w", err)
	}
	for _, part := range parts {
		all.Add(part)
	}
	return all, nil
}
