package store

import (
	"context"
	"time"
)

var scheduleStatesScript = newScript("schedule_states")

// ScheduleStates are how many schedules there are.
type ScheduleStates struct {
	Active, Paused int
	Ended          int           // have no next moment any more
	Overdue        time.Duration // for how long the next moment of one that is active has been due; 0 if none is
}

// Add adds another partition's.
func (s *ScheduleStates) Add(part ScheduleStates) {
	s.Active, s.Paused, s.Ended = s.Active+part.Active, s.Paused+part.Paused, s.Ended+part.Ended
	s.Overdue = max(s.Overdue, part.Overdue)
}

// statesPage is at how many schedules one script looks: a millisecond.
const statesPage = 500

// ScheduleStates looks at all schedules.
func (s *Store) ScheduleStates(ctx context.Context) (all ScheduleStates, err error) {
	last := ""
	for again := true; again; again = err == nil && last != "" {
		args := append(arguments(2, s.jobPool), last, statesPage)
		var page ScheduleStates
		page, err = newCall(s, scheduleStatesScript, args, func(reply any) (page ScheduleStates, err error) {
			var overdue int64
			_, err = scan(reply, &last, &page.Active, &page.Paused, &page.Ended, &overdue)
			page.Overdue = time.Duration(overdue) * time.Millisecond
			return page, err
		}).Do(ctx)
		all.Add(page)
	}
	return all, err
}
