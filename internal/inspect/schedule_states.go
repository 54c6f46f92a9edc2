package inspect

import (
	"context"
	"fmt"

	"github.com/mix-basic/delayer/internal/store"
)

// ScheduleStates are how many schedules there are.
type ScheduleStates = store.ScheduleStates

// ScheduleStates reads it of the partitions that can be read. It costs Redis about a microsecond for each schedule.
func (o *Inspector) ScheduleStates(ctx context.Context) (ScheduleStates, error) {
	failed := make(failures, len(o.fleet.Stores))
	parts := make([]ScheduleStates, len(failed))
	o.each(ctx, failed, func(ctx context.Context, i int, s *store.Store) (err error) {
		parts[i], err = s.ScheduleStates(ctx)
		return err
	})
	if err := failed.all(); err != nil {
		return ScheduleStates{}, fmt.Errorf("schedule states: %w", err)
	}
	var all ScheduleStates
	for i, part := range parts {
		if failed[i] == nil {
			all.Add(part)
		}
	}
	return all, nil
}
