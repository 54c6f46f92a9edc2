package store

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	forecastScript = newScript("forecast")
	sampleScript   = newScript("sample")
)

// DueCount counts the entries of the pool that fall due in a span of time, those of them that were read, and the leases among these. The
// other entries are jobs.
type DueCount struct{ Entries, Read, Leases int }

// Forecast counts the jobs that fall due between each two of the bounds, in ms from a time on, or from now if that is zero. It may return
// only the first spans, at least one. It returns the time.
func (s *Store) Forecast(ctx context.Context, from time.Time, bounds []int64) (time.Time, []DueCount, error) {
	args := append(arguments(1+len(bounds), s.jobPool, s.keys.Reserved()), any(""))
	if !from.IsZero() {
		args[len(args)-1] = from.UnixMilli()
	}
	var ms int64
	counts, err := newCall(s, forecastScript, appendAll(args, bounds), func(reply any) (counts []DueCount, err error) {
		rest, err := scan(reply, &ms)
		for err == nil && len(rest) >= 3 {
			var c DueCount
			rest, err = redis.Scan(rest, &c.Entries, &c.Read, &c.Leases)
			counts = append(counts, c)
		}
		if err == nil && len(counts) == 0 {
			err = errUnreadable
		}
		return counts, err
	}).Do(ctx)
	if err != nil {
		return time.Time{}, nil, err
	}
	return time.UnixMilli(ms), counts, nil
}

// Sample describes some entries of the pool.
type Sample struct {
	Entries int            // of the whole pool, or of what is due
	Read    int            // number of entries read
	Leases  int            // number of leases among these
	Jobs    map[string]int // the jobs by topic; "" for entries without a job
}

// Sample reads count entries of a random sample of the pool, after the first before entries. A pool no larger than the sample is read
// whole, in order. Unless within is 0, only entries due within that time count.
func (s *Store) Sample(ctx context.Context, sample, before, count int, within time.Duration) (Sample, error) {
	args := append(arguments(5, s.jobPool), sample, before, count, rand.Int32(), "")
	if within > 0 {
		args[len(args)-1] = within.Milliseconds()
	}
	return newCall(s, sampleScript, args, func(reply any) (Sample, error) {
		of := Sample{Jobs: map[string]int{}}
		rest, err := scan(reply, &of.Entries, &of.Read, &of.Leases)
		for err == nil && len(rest) >= 2 {
			var topic string
			var jobs int
			rest, err = redis.Scan(rest, &topic, &jobs)
			of.Jobs[topic] = jobs
		}
		return of, err
	}).Do(ctx)
}
