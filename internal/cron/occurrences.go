package cron

import (
	"math"
	"time"
)

// MostCounted is how far Occurrences counts: more than that in crontab fields may be more.
const MostCounted = 10000

// Occurrences describes the occurrences from first, which is one, until now: their number, the last few, and
// the next one. There is at least one, even if now is before it.
func (s *Spec) Occurrences(first, now time.Time, few int) (count int, last []time.Time, next time.Time) {
	if s.every > 0 {
		count = max(int(now.Sub(first)/s.every)+1-few, 0)
		first = first.Add(time.Duration(count) * s.every)
	}
	last, next = s.until(first, now, MostCounted)
	count += len(last)
	for back := time.Hour; !next.IsZero() && !next.After(now); back *= 2 { // too many: only the last few matter
		last, next = s.until(s.Next(now.Add(-back)), now, math.MaxInt)
		if len(last) < few {
			next = first // further back
		}
	}
	return count, last[max(len(last)-few, 0):], next
}

// until returns the occurrences from at, which is one, until now, as many as most, and the next one.
func (s *Spec) until(at, now time.Time, most int) (all []time.Time, next time.Time) {
	all, next = []time.Time{at}, s.Next(at)
	for !next.IsZero() && !next.After(now) && len(all) < most {
		all, next = append(all, next), s.Next(next)
	}
	return all, next
}
