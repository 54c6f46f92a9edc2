package dashboard

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/cron"
	"github.com/mix-basic/delayer/internal/store"
)

type schedulesData struct {
	paging
	Shown  []shownSchedule
	All    int            // number of schedules
	Counts map[string]int // number of schedules per filter
	Broken error          // why some partitions can't be read; nil if all can
}

// shownSchedule is a schedule for display.
type shownSchedule struct{ store.Scheduled }

// Without is the number of occurrences without a job.
func (s shownSchedule) Without() int64 { return s.NotRun.Late + s.NotRun.Overlapped + s.NotRun.Paused }

// rests orders the schedules: active ones, ended ones, paused ones.
func (s shownSchedule) rests() int {
	switch {
	case !s.Paused.IsZero():
		return 2
	case s.Next.IsZero():
		return 1
	}
	return 0
}

// When returns the schedule's cron fields in short.
func (s shownSchedule) When() string { return cron.Short(s.Spec) }

// IsLate reports whether the next occurrence is overdue.
func (p *page) IsLate(s shownSchedule) bool {
	const patience = 5 * time.Second
	return !s.Next.IsZero() && s.Paused.IsZero() && p.now.Sub(s.Next) > patience
}

func (p *page) shows(show string, s shownSchedule) bool {
	switch show {
	case "paused":
		return !s.Paused.IsZero()
	case "late":
		return p.IsLate(s)
	case "without":
		return s.Without() > 0
	}
	return true
}

// schedules serves all schedules, the next due first and paused ones last.
func (d *Dashboard) schedules(p *page) error {
	found, err := d.inspector.Schedules(p.ctx)
	if err != nil {
		return err
	}
	p.setClock(found.Time)
	data := schedulesData{All: len(found.List), Counts: map[string]int{}, Broken: found.Broken}
	data.paging = p.paging(paging{Path: "ui/schedules", Shows: []string{"", "paused", "late", "without"}})
	for _, s := range found.List {
		one := shownSchedule{s}
		if !strings.Contains(one.Name, data.Contains) && !strings.Contains(one.Topic, data.Contains) {
			continue
		}
		for _, show := range data.Shows {
			if p.shows(show, one) {
				data.Counts[show]++
			}
		}
		if p.shows(data.Show, one) {
			slices.Reverse(one.Past) // newest first
			data.Shown = append(data.Shown, one)
		}
	}
	slices.SortStableFunc(data.Shown, func(a, b shownSchedule) int {
		return cmp.Or(cmp.Compare(a.rests(), b.rests()), a.Next.Compare(b.Next), strings.Compare(a.Name, b.Name))
	})
	data.Shown = cutPage(&data.paging, data.Shown)
	return p.show("schedules", data)
}

// onSchedule returns the result of an action; a schedule that is gone counts as nothing to do.
func (a *act) onSchedule(err error) (int, error) {
	if errors.Is(err, client.ErrNotFound) {
		return 0, nil
	}
	return oneUnless(err)
}

func (a *act) runNow() (int, error) {
	_, err := a.client.Schedules().Run(a.ctx, a.Schedule)
	return a.onSchedule(err)
}
