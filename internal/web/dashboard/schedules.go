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

// schedulesData is what the page of schedules shows.
type schedulesData struct {
	paging
	Shown  []shownSchedule
	All    int            // how many there are
	Counts map[string]int // how many each filter shows
	Broken error          // why those of some partitions can't be read; nil if all can
}

// Shows are the filters.
func (schedulesData) Shows() []string { return []string{"", "paused", "late", "without"} }

// shownSchedule is one as the page shows it.
type shownSchedule struct{ store.Scheduled }

// Without is how many moments had no job.
func (s shownSchedule) Without() int64 { return s.NotRun.Late + s.NotRun.Overlapped + s.NotRun.Paused }

// When is its spec.
func (s shownSchedule) When() string { return cron.Short(s.Spec) }

// IsLate reports whether its next moment should have come by now.
func (p *page) IsLate(s shownSchedule) bool {
	const patience = 5 * time.Second
	return !s.Next.IsZero() && s.Paused.IsZero() && p.now.Sub(s.Next) > patience
}

// shows reports whether a filter shows the schedule.
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

// schedules are all schedules, the next to be due first; those that are paused come last.
func (d *Dashboard) schedules(p *page) error {
	found, err := d.inspector.Schedules(p.ctx)
	if err != nil {
		return err
	}
	p.setClock(found.Time)
	data := schedulesData{paging: p.paging("/ui/schedules", ""), All: len(found.List), Counts: map[string]int{}, Broken: found.Broken}
	if !slices.Contains(data.Shows(), data.Show) {
		data.Show = ""
	}
	for _, s := range found.List {
		one := shownSchedule{s}
		if !strings.Contains(one.Name, data.Contains) && !strings.Contains(one.Topic, data.Contains) {
			continue
		}
		for _, show := range data.Shows() {
			if p.shows(show, one) {
				data.Counts[show]++
			}
		}
		if p.shows(data.Show, one) {
			slices.Reverse(one.Past) // the newest first
			data.Shown = append(data.Shown, one)
		}
	}
	rests := func(s shownSchedule) int {
		switch {
		case !s.Paused.IsZero():
			return 2
		case s.Next.IsZero():
			return 1
		}
		return 0
	}
	slices.SortStableFunc(data.Shown, func(a, b shownSchedule) int {
		return cmp.Or(cmp.Compare(rests(a), rests(b)), a.Next.Compare(b.Next), strings.Compare(a.Name, b.Name))
	})
	data.Shown = cutPage(&data.paging, data.Shown)
	return p.show("schedules", data)
}

// onSchedule is something done to the act's schedule. One that is gone is nothing to do any more.
func (a *act) onSchedule(err error) (int, error) {
	if errors.Is(err, client.ErrNotFound) {
		return 0, nil
	}
	return oneUnless(err)
}

func (a *act) runNow() (int, error) {
	_, err := a.client.RunNow(a.ctx, a.Schedule)
	return a.onSchedule(err)
}
