package inspect

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// Span is how many jobs fall due from From, inclusive, to Until, exclusive, counted from now.
type Span struct {
	From, Until time.Duration
	Jobs        int
	// Estimated says that the ends of leases in the span were estimated from a sample, because it has
	// more than 1,000 entries and jobs are reserved.
	Estimated bool
}

// Forecast is how many jobs of the readable partitions fall due.
type Forecast struct {
	Spans []Span
	// Broken says why some partitions cannot be read; nil if all can.
	Broken error
	// BrokenPartitions are their numbers.
	BrokenPartitions []int
}

// Forecast counts the jobs that fall due in each span. The first begins now, and each ends at
// one of the bounds, which must be positive and increasing. Overdue jobs and ends of leases
// do not count.
func (o *Inspector) Forecast(ctx context.Context, bounds []time.Duration) (Forecast, error) {
	all := Forecast{Spans: make([]Span, len(bounds))}
	ms, last := []int64{0}, time.Duration(0)
	for i, bound := range bounds {
		if bound <= last {
			return Forecast{}, fmt.Errorf("count jobs that fall due: bound %v is not above the one before, %v", bound, last)
		}
		all.Spans[i] = Span{From: last, Until: bound}
		ms, last = append(ms, bound.Milliseconds()), bound
	}
	failed := o.none()
	parts, err := gather(ctx, o, failed, func(ctx context.Context, _ int, s *store.Store) (counts []store.DueCount, err error) {
		var from time.Time
		for len(counts) < len(bounds) {
			var some []store.DueCount
			if from, some, err = s.Forecast(ctx, from, ms[len(counts):]); err != nil {
				return nil, err
			}
			counts = append(counts, some...)
		}
		return counts, nil
	})
	if err != nil {
		return Forecast{}, fmt.Errorf("count jobs that fall due: %w", err)
	}
	for _, counts := range parts {
		for i, count := range counts {
			jobs, estimated := jobsOf(count)
			all.Spans[i].Jobs += jobs
			all.Spans[i].Estimated = all.Spans[i].Estimated || estimated
		}
	}
	all.Broken, all.BrokenPartitions = failed.any(), failed.numbers()
	return all, nil
}

// jobsOf is how many of the entries are jobs that fall due, estimated if not all were examined.
func jobsOf(c store.DueCount) (jobs int, estimated bool) {
	if c.Read >= c.Entries {
		return c.Entries - c.Leases, false
	}
	share := 1 - float64(c.Leases)/float64(max(c.Read, 1))
	return int(math.Round(float64(c.Entries) * share)), true
}
