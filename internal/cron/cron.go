// Package cron reads when periodic jobs are due: five fields as in crontab(5), or "@every 90s". It needs nothing but the
// standard library, as importers of package client link it.
package cron

import "time"

// farthest is how many years there are at most from a moment to the next: a fifth Monday in February needs a leap year that
// begins on a Thursday, and 2100 is none.
const farthest = 40

// Spec says when something is due, again and again.
type Spec struct {
	every time.Duration // 0: the fields count

	minutes, hours, months bits
	days                   days
	fixed                  bool // neither the minutes nor the hours have a *
}

// bits are numbers from 0 to 63.
type bits uint64

func (b bits) has(n int) bool { return b&(1<<n) != 0 }

// Every is the time from each moment to the next, 0 if the fields of a crontab say when they are.
func (s *Spec) Every() time.Duration { return s.every }

// Next is the first moment after that one, by the clocks of its Location; zero if there is none within 40 years.
//
// Where clocks change, a spec whose minutes and hours both are numbers, such as "30 2 * * *", has each moment once: one that is left
// out comes right after the gap, of several the gap has one, and one that is there twice comes the first time. Any other, such as
// "*/10 * * * *", goes on through both, and has what clocks show.
func (s *Spec) Next(after time.Time) time.Time {
	if s.every > 0 {
		return after.Add(s.every)
	}
	t := after.Truncate(time.Minute).Add(time.Minute)
	unseen := clock(t) // what clocks have not shown before
	if start, before := change(t); !start.IsZero() && (start.Equal(t) || unseen.Before(before)) {
		unseen = before
	}
	for last := t.AddDate(farthest, 1, 0); t.Before(last); {
		from := clock(t)
		if s.fixed {
			from = unseen
		}
		wanted := s.match(from)
		if wanted.IsZero() {
			break
		}
		at := t.Add(wanted.Sub(clock(t)))
		_, end := t.ZoneBounds()
		if end.IsZero() || at.Before(end) {
			return later(at, t) // in the gap that ends at t, at is earlier
		}
		t = end
		if _, before := change(t); unseen.Before(before) {
			unseen = before
		}
	}
	return time.Time{}
}

// change is when the clocks were changed last, at t or before, and what they would have shown then. Zero is never.
func change(t time.Time) (start, would time.Time) {
	start, _ = t.ZoneBounds()
	if start.IsZero() {
		return start, start
	}
	return start, clock(start.Add(-time.Minute)).Add(time.Minute)
}

// clock is what clocks show at t, as a time in UTC, which has no gaps.
func clock(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// match is the first minute from t on, of clocks that never change, that the fields have.
func (s *Spec) match(t time.Time) time.Time {
	for end := t.AddDate(farthest, 1, 0); t.Before(end); {
		year, month, day := t.Date()
		switch {
		case !s.months.has(int(month)):
			t = time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
		case !s.days.has(t):
			t = time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
		case !s.hours.has(t.Hour()):
			t = t.Truncate(time.Hour).Add(time.Hour)
		case !s.minutes.has(t.Minute()):
			t = t.Add(time.Minute)
		default:
			return t
		}
	}
	return time.Time{}
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
