package cron

import (
	mathbits "math/bits"
	"time"
)

// Occurrences describes the occurrences from first, which is one, until now: their number, the last few, and
// the next one. There is at least one, even if now is before it. A year of them takes milliseconds.
func (s *Spec) Occurrences(first, now time.Time, few int) (count int, last []time.Time, next time.Time) {
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

// leap counts occurrences from first, which is one, in whole days as far as possible before end. next is the
// first one not counted.
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

// fewBefore returns the start of a day after which there are few occurrences until now, or first if there are
// fewer.
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

// onPlain returns the number of occurrences on a plain day.
func (s *Spec) onPlain(d day) int {
	if t := d.in(time.UTC); !s.months.has(int(t.Month())) || !s.days.has(t) {
		return 0
	}
	return mathbits.OnesCount64(uint64(s.minutes)) * mathbits.OnesCount64(uint64(s.hours))
}

// day is a day of a zone's calendar.
type day struct {
	year   int
	month  time.Month
	number int // counted from the first of the month, which is 1; may be beyond its last day
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

// isPlain reports whether clocks change neither on this day nor on the day before: then each minute occurs
// once, and no occurrence is shifted into this day.
func (d day) isPlain() bool {
	const whole = 24 * time.Hour
	start := d.start()
	from, until := start.ZoneBounds()
	return d.end().Sub(start) == whole && (from.IsZero() || start.Sub(from) >= whole) && (until.IsZero() || until.Sub(start) >= whole)
}
