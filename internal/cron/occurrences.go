package cron

import (
	mathbits "math/bits"
	"time"
)

// Moments are those from first, which is one, until now: how many there are, the last few of them, and the next one. There is one at
// least, be now before it. Those of a year take milliseconds.
func (s *Spec) Moments(first, now time.Time, few int) (count int, last []time.Time, next time.Time) {
	if s.every > 0 {
		count = max(int(now.Sub(first)/s.every)+1-few, 0)
		next = first.Add(time.Duration(count) * s.every)
	} else {
		count, next = s.leap(first, s.fewBefore(now, first, few))
	}
	for again := true; again; again = !next.IsZero() && !next.After(now) {
		count++
		last = append(last, next)
		if len(last) >= 2*few {
			last = append(last[:0], last[len(last)-few:]...)
		}
		next = s.Next(next)
	}
	return count, last[max(len(last)-few, 0):], next
}

// leap counts moments from first, which is one, by whole days, as far as that is possible before the end. next is the first one
// that it has not counted.
func (s *Spec) leap(first, end time.Time) (count int, next time.Time) {
	d := dayOf(first)
	if !first.Before(end) || d.end().After(end) {
		return 0, first
	}
	count = 1
	for at := first.Add(time.Minute); ; d.number++ { // those before at are counted
		next = s.Next(at.Add(-time.Minute))
		switch {
		case d.end().After(end):
			return count, next
		case at.Equal(d.start()) && d.isPlain():
			count += s.onPlain(d)
		default:
			for ; !next.IsZero() && next.Before(d.end()); next = s.Next(next) {
				count++
			}
		}
		at = later(at, d.end())
	}
}

// fewBefore is the beginning of a day from which on there are so many moments until now; first, if there are fewer.
func (s *Spec) fewBefore(now, first time.Time, few int) time.Time {
	d := dayOf(now.In(first.Location()))
	for few > 0 {
		d.number--
		if !d.start().After(first) {
			return first
		}
		if d.isPlain() {
			few -= s.onPlain(d)
		}
	}
	return d.start()
}

// onPlain is how many moments a plain day has.
func (s *Spec) onPlain(d day) int {
	if t := d.in(time.UTC); !s.months.has(int(t.Month())) || !s.days.has(t) {
		return 0
	}
	return mathbits.OnesCount64(uint64(s.minutes)) * mathbits.OnesCount64(uint64(s.hours))
}

// day is one of clocks of a zone.
type day struct {
	year   int
	month  time.Month
	number int // from the month's first on, which is 1; it may be beyond its last
	zone   *time.Location
}

func dayOf(t time.Time) day {
	year, month, number := t.Date()
	return day{year, month, number, t.Location()}
}

func (d day) in(zone *time.Location) time.Time {
	return time.Date(d.year, d.month, d.number, 0, 0, 0, 0, zone)
}

func (d day) start() time.Time { return d.in(d.zone) }

func (d day) end() time.Time { d.number++; return d.start() }

// isPlain reports whether clocks change neither on this day nor on the one before: then they show each minute once, and what is left
// out elsewhere does not come on this day.
func (d day) isPlain() bool {
	const whole = 24 * time.Hour
	start := d.start()
	from, until := start.ZoneBounds()
	return d.end().Sub(start) == whole && (from.IsZero() || start.Sub(from) >= whole) && (until.IsZero() || until.Sub(start) >= whole)
}
