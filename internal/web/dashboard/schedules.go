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

// maxSchedules is how many schedules the page shows.
const maxSchedules = 500

// schedulesData is what the page of schedules shows.
type schedulesData struct {
	Shown  []shownSchedule
	Others int   // how many more there are
	Broken error // why those of some partitions can't be read; nil if all can
}

// shownSchedule is one as the page shows it.
type shownSchedule struct{ store.Scheduled }

// Without is how many moments had no job.
func (s shownSchedule) Without() int64 { return s.NotRun.Late + s.NotRun.Overlapped + s.NotRun.Paused }

// When is its spec.
func (s shownSchedule) When() string { return cron.Short(s.Spec) }

// IsLate reports whether its next moment should have come by now.
func (p *page) IsLate(s shownSchedule) bool {
	const patience = 5 * time.Second
	return !s.Next.IsZero() && p.now.Sub(s.Next) > patience
}

// schedules are all schedules, the next to be due first.
func (d *Dashboard) schedules(p *page) error {
	found, err := d.operator.Schedules(p.ctx)
	if err != nil {
		return err
	}
	p.setClock(found.Time)
	all := found.List
	slices.SortStableFunc(all, func(a, b store.Scheduled) int {
		if a.Next.IsZero() != b.Next.IsZero() { // which comes last
			return cmp.Compare(b.Next.Unix(), a.Next.Unix())
		}
		return cmp.Or(a.Next.Compare(b.Next), strings.Compare(a.Name, b.Name))
	})
	shown := min(len(all), maxSchedules)
	data := schedulesData{Others: len(all) - shown, Broken: found.Broken}
	for _, s := range all[:shown] {
		slices.Reverse(s.Past) // the newest first
		data.Shown = append(data.Shown, shownSchedule{s})
	}
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
