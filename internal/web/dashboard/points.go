package dashboard

import (
	"math"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// point is a point of the charts: the mean of the seconds before it. A nil value is unknown or was not
// recorded.
type point struct {
	At              time.Time // Redis's time where known
	Moved, Acked    any       // per second
	Median, Worst   any       // lateness in ms, if jobs were moved
	Ready, Reserved any
	Taken           float64       // visible consumption per second
	Span            time.Duration // how long before At it begins; 0 if recorded by the sampler
}

// late sets the lateness.
func (p *point) late(jobs store.Lateness) {
	if jobs.Jobs() > 0 {
		p.Median, p.Worst = milliseconds(jobs.Quantile(0.5)), milliseconds(jobs.Quantile(0.99))
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// seconds returns the point's time for the charts.
func (p point) seconds() float64 { return float64(p.At.UnixMilli()) / 1000 }

// hour is how far back the charts go.
const hour = time.Hour

// least is the maximum distance between connected points if the servers report often. An idle server writes
// its history every ten seconds, plus a little, so a step may be missing now and then.
const least = store.RenewEvery + pastStep + 5*time.Second

// pointsOf converts the servers' history.
func pointsOf(past []store.Past, gap time.Duration) []point {
	points := make([]point, len(past))
	for i, p := range past {
		at := point{At: p.Until, Span: p.Until.Sub(p.From), Moved: float64(p.Lateness.Jobs()) / p.Until.Sub(p.From).Seconds()}
		at.late(p.Lateness)
		if i > 0 {
			before := past[i-1]
			if since := p.Until.Sub(before.Until); p.Acked >= 0 && before.Acked >= 0 && since <= gap {
				at.Taken = max(float64(p.Acked-before.Acked), 0) / since.Seconds()
				at.Acked = at.Taken
			}
		}
		points[i] = at
	}
	return points
}

// join returns the last hour: what the sampler recorded, and for the rest the servers' history. Gaps longer
// than gap get an empty point.
func join(past, watched []point, step, gap time.Duration) (joined []point) {
	all := slices.Clone(watched)
	for _, p := range past {
		next := sort.Search(len(watched), func(i int) bool { return watched[i].At.After(p.At.Add(-step)) })
		if next == len(watched) || watched[next].At.After(p.At) {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b point) int { return a.At.Compare(b.At) })
	for i, p := range all {
		if p.At.Before(all[len(all)-1].At.Add(-hour)) {
			continue
		}
		away := gap
		if i > 0 && all[i-1].Span == 0 { // a step of history that began while the sampler recorded
			away += p.Span
		}
		if len(joined) > 0 && p.At.Sub(all[i-1].At) > away {
			joined = append(joined, point{At: all[i-1].At.Add(time.Millisecond)})
		}
		joined = append(joined, p)
	}
	return joined
}

// after returns the points after that time in seconds, or all if it is empty.
func after(points []point, since string) []point {
	seconds, err := strconv.ParseFloat(since, 64)
	if err != nil || math.IsNaN(seconds) {
		return points
	}
	return points[sort.Search(len(points), func(i int) bool { return points[i].seconds() > seconds }):]
}

// columns transposes the points for the charts: all values of one kind in a row.
func columns(points []point) [][]any {
	c := make([][]any, 7)
	for i := range c {
		c[i] = []any{} // [] in JSON, not null
	}
	for _, p := range points {
		for i, value := range []any{p.seconds(), p.Moved, p.Acked, p.Median, p.Worst, p.Ready, p.Reserved} {
			c[i] = append(c[i], value)
		}
	}
	return c
}
