package dashboard

import (
	"math"
	"sort"
	"strconv"
	"time"

	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
)

// history is what the servers did in the last hour, in steps of ten seconds.
type history struct {
	Points []point // oldest first
	Rates  rates
	Most   float64 // most jobs acknowledged per second in one step
}

// rates are of the last step.
type rates struct {
	Known         bool // it is recent
	Moved         float64
	Acked         float64        // inspect.Unknown if unknown
	Late          store.Lateness // of the jobs moved in it
	LateSinceEver bool           // Late covers all jobs since the servers started, because none was moved
}

// point is a point of the charts: the mean of a step. A nil value is unknown.
type point struct {
	At            time.Time // the end of the step by Redis's clock
	Moved, Acked  any       // per second
	Median, Worst any       // lateness in ms, if jobs were moved
}

// historyOf converts the servers' history. Longer gaps than store.MaxPastGap get an empty point.
func historyOf(past []store.Past, servers []store.ServerState, now time.Time) (h history) {
	for i, p := range past {
		at := point{At: p.Until, Moved: p.Moved()}
		if p.Lateness.Jobs() > 0 {
			at.Median, at.Worst = milliseconds(p.Lateness.Quantile(0.5)), milliseconds(p.Lateness.Quantile(0.99))
		}
		h.Rates = rates{Known: now.Sub(p.Until) <= store.MaxPastGap, Moved: p.Moved(), Acked: inspect.Unknown, Late: p.Lateness}
		if i > 0 {
			before := past[i-1]
			if p.Until.Sub(before.Until) > store.MaxPastGap {
				h.Points = append(h.Points, point{At: before.Until.Add(time.Millisecond)})
			}
			if acked := p.AckedSince(before); acked >= 0 {
				h.Rates.Acked, at.Acked, h.Most = acked, acked, max(h.Most, acked)
			}
		}
		h.Points = append(h.Points, at)
	}
	if !h.Rates.Known {
		h.Rates = rates{}
	}
	if h.Rates.Late.Jobs() == 0 {
		h.Rates.LateSinceEver = true
		for _, server := range servers {
			h.Rates.Late = h.Rates.Late.Plus(server.Lateness)
		}
	}
	return h
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// seconds returns a time for the charts.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// after returns the points after that time in seconds, or all if it is empty.
func after(points []point, since string) []point {
	least, err := strconv.ParseFloat(since, 64)
	if err != nil || math.IsNaN(least) {
		return points
	}
	return points[sort.Search(len(points), func(i int) bool { return seconds(points[i].At) > least }):]
}

// columns transposes the points for the charts: all values of one kind in a row.
func columns(points []point) [][]any {
	c := make([][]any, 5)
	for i := range c {
		c[i] = []any{} // [] in JSON, not null
	}
	for _, p := range points {
		for i, value := range []any{seconds(p.At), p.Moved, p.Acked, p.Median, p.Worst} {
			c[i] = append(c[i], value)
		}
	}
	return c
}
