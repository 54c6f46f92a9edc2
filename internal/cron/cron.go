// Package cron computes when periodic jobs are due: five fields as in crontab(5), or "@every 90s".
//
// Parse returns a Spec, whose Next is checked against a slow and obvious search (see oracle_test.go). It
// depends on the standard library only, because programs that import client link it. Rejected: robfig/cron,
// unmaintained and wrong at clock changes.
package cron

import "time"

// farthest is the maximum number of years between occurrences: a fifth Monday in February needs a leap year
// that starts on a Thursday, and 2100 is not a leap year.
const farthest = 40

// Spec defines occurrences.
type Spec struct {
	every time.Duration // 0: the fields apply

	minutes, hours, months bits
	days                   days
	fixed                  bool // neither the minutes nor the hours contain a *
}

// bits is a set of numbers from 0 to 63.
type bits uint64

func (b bits) has(n int) bool { return b&(1<<n) != 0 }

// Every returns the interval of an @every spec, 0 for crontab fields.
func (s *Spec) Every() time.Duration { return s.every }

// Next returns the first occurrence after that time, in its Location; zero if none comes within 40 years.
//
// When clocks change, a spec whose minutes and hours are both numbers, such as "30 2 * * *", has each
// occurrence once: one within the gap comes right after it (several become one), and one in the repeated hour
// comes the first time. Any other spec, such as "*/10 * * * *", follows what clocks show.
func (s *Spec) Next(after time.Time) time.Time {
	if s.every > 0 {
		return after.Add(s.every)
	}
	t := after.Truncate(time.Minute).Add(time.Minute)
	unseen := clock(t) // local times not shown before
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
			if at.Before(t) { // within the gap that ends at t
				at = t
			}
			return at
		}
		t = end
		if _, before := change(t); unseen.Before(before) {
			unseen = before
		}
	}
	return time.Time{}
}

// change returns the last clock change at or before t, and what clocks would have shown then without it. Zero
// means never.
func change(t time.Time) (start, would time.Time) {
	start, _ = t.ZoneBounds()
	if start.IsZero() {
		return start, start
	}
	return start, clock(start.Add(-time.Minute)).Add(time.Minute)
}

// clock returns local time at t, as a time in UTC, which has no gaps.
func clock(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// match returns the first matching minute from t on, as if clocks never changed.
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
