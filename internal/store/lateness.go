package store

import (
	"slices"
	"time"
)

// LatenessBounds are the upper bounds of a Lateness's buckets. The last bucket has none.
var LatenessBounds = [...]time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second,
	10 * time.Second, time.Minute, 10 * time.Minute, time.Hour,
}

// Lateness is a histogram of how late jobs became ready. The zero value has no jobs.
type Lateness struct {
	// Counts are the jobs by bucket: Counts[i] jobs were late by at most LatenessBounds[i], and by more than the previous bound.
	Counts [len(LatenessBounds) + 1]int64
	// Sum is the total lateness in seconds.
	Sum float64
}

// Plus returns the sum of both.
func (l Lateness) Plus(other Lateness) Lateness {
	for i, n := range other.Counts {
		l.Counts[i] += n
	}
	l.Sum += other.Sum
	return l
}

// Jobs returns the number of jobs.
func (l Lateness) Jobs() int64 {
	jobs := int64(0)
	for _, n := range l.Counts {
		jobs += n
	}
	return jobs
}

// Quantile returns the maximum lateness of the fraction q of the jobs, from 0 to 1. It is exact at the bounds and interpolated between
// them; above the last bound it is that bound. Without jobs it is 0.
func (l Lateness) Quantile(q float64) time.Duration {
	wanted := min(max(q, 0), 1) * float64(l.Jobs())
	below, lower := 0.0, time.Duration(0)
	for i, bound := range LatenessBounds {
		jobs := float64(l.Counts[i])
		if jobs > 0 && below+jobs >= wanted {
			return lower + time.Duration((wanted-below)/jobs*float64(bound-lower))
		}
		below, lower = below+jobs, bound
	}
	if below == float64(l.Jobs()) {
		return 0
	}
	return lower
}

// latenessOf reads move.lua's numbers for this many jobs: their total lateness in µs and, if more follows, the number of leases and the
// number of jobs in each bucket.
func latenessOf(jobs int, us int64, more []any) (l Lateness, leases int) {
	l.Sum = float64(us) / 1e6
	if len(more) > 0 {
		n, _ := more[0].(int64)
		leases, more = int(n), more[1:]
	}
	if len(more) == 0 && jobs > 0 { // all jobs are in the bucket of their mean
		l.Counts[bucketOf(us/int64(jobs))] = int64(jobs)
	}
	for _, count := range more {
		n, _ := count.(int64)
		if place := n%32 - 1; place >= 0 && place < int64(len(l.Counts)) {
			l.Counts[place] += n / 32
		}
	}
	return l, leases
}

// bucketOf returns the index in Counts of a lateness in µs.
func bucketOf(us int64) int {
	place, _ := slices.BinarySearch(LatenessBounds[:], time.Duration(min(us, 1e12))*time.Microsecond)
	return place
}
