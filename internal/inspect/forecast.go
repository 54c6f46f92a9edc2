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

// Forecast counts the jobs that fall due in each span. The first begins now, and each ends at
// one of the bounds, which must be positive and increasing. Overdue jobs and ends of leases
// do not count.
func (o *Inspector) Forecast(ctx context.Context, bounds []time.Duration) ([]Span, error) {
	spans := make([]Span, len(bounds))
	last := time.Duration(0)
	for i, bound := range bounds {
		if bound <= last {
			return nil, fmt.Errorf("count jobs that fall due: bound %v is not above the one before, %v", bound, last)
		}
		spans[i] = Span{From: last, Until: bound}
		last = bound
	}
	var from time.Time
	for _, partition := range o.fleet.Stores {
		for i := 0; i < len(spans); {
			ms := []int64{spans[i].From.Milliseconds()}
			for _, span := range spans[i:] {
				ms = append(ms, span.Until.Milliseconds())
			}
			began, counts, err := partition.Forecast(ctx, from, ms)
			if err != nil {
				return nil, fmt.Errorf("count jobs that fall due: %w", err)
			}
			from = began
			for _, count := range counts {
				jobs, estimated := jobsOf(count)
				spans[i].Jobs += jobs
				spans[i].Estimated = spans[i].Estimated || estimated
				i++
			}
		}
	}
	return spans, nil
}

// jobsOf is how many of the entries are jobs that fall due, estimated if not all were examined.
func jobsOf(c store.DueCount) (jobs int, estimated bool) {
	if c.Read >= c.Entries {
		return c.Entries - c.Leases, false
	}
	share := 1 - float64(c.Leases)/float64(max(c.Read, 1))
	return int(math.Round(float64(c.Entries) * share)), true
}
