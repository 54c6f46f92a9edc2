package inspect

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// Peak is the busiest second.
type Peak struct {
	Found     bool      // whether any second has more jobs than was asked for
	At        time.Time // its start, a whole second by Redis's clock
	Jobs      int
	Estimated bool // the ends of leases in it were estimated from a sample
	Partial   bool // the search was cut short, so another second may be busier
}

const (
	// peakParts is into how many parts a span is divided, and peakSpans how many spans at a time.
	peakParts, peakSpans = 4, 32
	// peakCounts is the most spans counted for a Peak; separating jobs from leases in a
	// second costs as much as counting secondCost spans.
	peakCounts, secondCost = 20000, 50
)

// Peak finds the busiest second within that time from now, if one has more than above jobs
// that fall due. Ends of leases do not count. It only examines spans with many jobs: the
// larger above is, the less it costs.
func (o *Inspector) Peak(ctx context.Context, within time.Duration, above int) (Peak, error) {
	p := peakSearch{inspector: o, ctx: ctx, above: max(above, 0)}
	if err := p.run(int64(within / time.Second)); err != nil {
		return Peak{}, fmt.Errorf("read the peak: %w", err)
	}
	return p.best, nil
}

// peakSearch divides the spans with the most entries until one of them is a second.
type peakSearch struct {
	inspector *Inspector
	ctx       context.Context
	above     int
	open      busiestFirst
	counted   int
	best      Peak
}

func (p *peakSearch) run(within int64) error {
	now, _, err := p.inspector.fleet.Stores[0].CountDue(p.ctx, nil)
	if err != nil || within < 1 {
		return err
	}
	// The current second is partly over.
	if err := p.dive(store.Seconds{From: now + 1, Until: now + 1 + within}); err != nil {
		return err
	}
	for len(p.open) > 0 {
		if p.best.Partial = p.counted >= peakCounts; p.best.Partial {
			return nil
		}
		var parts []store.Seconds
		for len(p.open) > 0 && len(parts) < peakSpans*peakParts && p.counted < peakCounts {
			busy := heap.Pop(&p.open).(busySpan)
			if busy.entries <= p.least() {
				p.open = nil // the others have no more either
				break
			}
			if busy.Until-busy.From > 1 {
				parts = append(parts, partsOf(busy.Seconds)...)
			} else if err := p.second(busy.From); err != nil {
				return err
			}
		}
		busy, err := p.count(parts)
		if err != nil {
			return err
		}
		for _, b := range busy {
			heap.Push(&p.open, b)
		}
	}
	return nil
}

// dive finds a busy second early, usually the busiest, so that little else must be examined.
func (p *peakSearch) dive(into store.Seconds) error {
	parts := []store.Seconds{into}
	for {
		busy, err := p.count(parts)
		if err != nil || len(busy) == 0 {
			return err
		}
		slices.SortFunc(busy, func(a, b busySpan) int { return cmp.Compare(b.entries, a.entries) })
		for _, b := range busy[1:] {
			heap.Push(&p.open, b)
		}
		if into = busy[0].Seconds; into.Until-into.From == 1 {
			return p.second(into.From)
		}
		parts = partsOf(into)
	}
}

// least is the number of jobs that the busiest second must exceed.
func (p *peakSearch) least() int { return max(p.above, p.best.Jobs) }

// count counts the entries of the spans, except spans that cannot contain the busiest second.
func (p *peakSearch) count(spans []store.Seconds) (busy []busySpan, err error) {
	if len(spans) == 0 {
		return nil, nil
	}
	p.counted += len(spans)
	sums := make([]int, len(spans))
	for _, partition := range p.inspector.fleet.Stores {
		_, counts, err := partition.CountDue(p.ctx, spans)
		if err != nil {
			return nil, err
		}
		for i, n := range counts {
			sums[i] += n
		}
	}
	for i, n := range sums {
		if n > p.least() {
			busy = append(busy, busySpan{spans[i], n})
		}
	}
	return busy, nil
}

// second counts the jobs of a second, without leases.
func (p *peakSearch) second(from int64) error {
	p.counted += secondCost
	at := time.Unix(from, 0)
	found := Peak{Found: true, At: at}
	for _, partition := range p.inspector.fleet.Stores {
		_, counts, err := partition.Forecast(p.ctx, at, []int64{0, 1000})
		if err != nil {
			return err
		}
		jobs, estimated := jobsOf(counts[0])
		found.Jobs += jobs
		found.Estimated = found.Estimated || estimated
	}
	if found.Jobs > p.least() {
		p.best = found
	}
	return nil
}

func partsOf(s store.Seconds) []store.Seconds {
	length := s.Until - s.From
	var parts []store.Seconds
	for i := range int64(peakParts) {
		part := store.Seconds{From: s.From + length*i/peakParts, Until: s.From + length*(i+1)/peakParts}
		if part.From < part.Until {
			parts = append(parts, part)
		}
	}
	return parts
}

// busySpan is a span of time, and how many entries of the pool fall due in it.
type busySpan struct {
	store.Seconds
	entries int
}

// busiestFirst is a heap of spans; of equally busy ones the earlier comes first.
type busiestFirst []busySpan

func (h busiestFirst) Len() int { return len(h) }
func (h busiestFirst) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[j].entries, h[i].entries), cmp.Compare(h[i].From, h[j].From)) < 0
}
func (h busiestFirst) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *busiestFirst) Push(x any)   { *h = append(*h, x.(busySpan)) }
func (h *busiestFirst) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
