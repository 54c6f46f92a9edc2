package dashboard

import (
	"math"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// point is a place on the charts: the mean of some seconds until then. A value is nil if it is not
// known, or nobody watched.
type point struct {
	At              time.Time // by Redis's clock, where that is known
	Moved, Acked    any       // a second
	Median, Worst   any       // by how many ms jobs were late, if there were any
	Ready, Reserved any
	Taken           float64       // a second, by consumers, as far as can be seen
	Span            time.Duration // how long before At it begins; 0 if it was watched
}

// late enters by how much jobs were late.
func (p *point) late(jobs store.Lateness) {
	if jobs.Jobs() > 0 {
		p.Median, p.Worst = milliseconds(jobs.Quantile(0.5)), milliseconds(jobs.Quantile(0.99))
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// seconds is its time as the charts have it.
func (p point) seconds() float64 { return float64(p.At.UnixMilli()) / 1000 }

// hour is for how long charts go back.
const hour = time.Hour

// least is how far points may be apart that belong together, if the servers look often: an idle server writes its history every ten
// seconds, and a little more, so that now and then a step of ten seconds has no entry.
const least = store.RenewEvery + pastStep + 5*time.Second

// pointsOf are those of what the servers have kept.
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

// join is the last hour: what was watched from here, and of what was not, what the servers have kept.
// Where there is neither for longer than gap, a point of nothing stands.
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
		if i > 0 && all[i-1].Span == 0 { // a step of history that began while somebody watched is left out
			away += p.Span
		}
		if len(joined) > 0 && p.At.Sub(all[i-1].At) > away {
			joined = append(joined, point{At: all[i-1].At.Add(time.Millisecond)})
		}
		joined = append(joined, p)
	}
	return joined
}

// after are the points after that time, in seconds; all if it is none.
func after(points []point, since string) []point {
	seconds, err := strconv.ParseFloat(since, 64)
	if err != nil || math.IsNaN(seconds) {
		return points
	}
	return points[sort.Search(len(points), func(i int) bool { return points[i].seconds() > seconds }):]
}

// columns are the points as the charts take them: each value of all points in turn.
func columns(points []point) [][]any {
	c := make([][]any, 7)
	for i := range c {
		c[i] = []any{} // which is no null
	}
	for _, p := range points {
		for i, value := range []any{p.seconds(), p.Moved, p.Acked, p.Median, p.Worst, p.Ready, p.Reserved} {
			c[i] = append(c[i], value)
		}
	}
	return c
}
