package dashboard

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
)

// beats are the servers' heartbeats.
type beats struct {
	List  []store.ServerState
	Acked int64 // jobs acknowledged in total; inspect.Unknown if unreadable
	Err   error
}

// rates are events per second.
type rates struct {
	Known         bool // there are two samples to compare, or a history
	Moved         float64
	Acked         float64        // inspect.Unknown if a partition can't be read
	Late          store.Lateness // of recently moved jobs
	LateSinceEver bool           // Late covers all jobs since the servers started, because none was moved recently
}

// follow compares the sample with earlier ones.
func (s *sampler) follow(next *sample) {
	for len(s.recent) > 1 && next.At.Sub(s.recent[1].At) >= rateWindow {
		s.recent = s.recent[1:]
	}
	if n := len(s.recent); n > 0 && next.At.Sub(s.recent[n-1].At) > 3*rateWindow {
		s.recent = nil // a mean over a long gap says nothing about now
	}
	p := point{At: cmp.Or(next.Time, next.At), Ready: next.Ready, Reserved: next.Reserved}
	if len(s.recent) > 0 && next.At.After(s.recent[0].At) {
		first := s.recent[0]
		next.Rates, next.Changes = next.rates(first), next.changes(first)
		if r := next.Rates; r.Known {
			// A lower bound: what entered the queues without waiting is unknown.
			p.Taken = max(r.Acked, r.Moved-float64(next.Ready-first.Ready)/next.seconds(first))
		}
	}
	if len(s.recent) == 0 || next.At.Sub(s.recent[0].At) < soon {
		// Servers report each second when it is over, so there is nothing to compare yet.
		if r := s.fromHistory(p.At, s.gap(next)); r.Known {
			next.Rates = r
		}
	}
	if r := next.Rates; r.Known {
		if p.Moved = r.Moved; r.Acked >= 0 {
			p.Acked = r.Acked
		}
		p.late(r.Late)
	}
	s.recent = append(s.recent, next)
	if next.Rates.Late.Jobs() == 0 {
		next.Rates.LateSinceEver = true
		for _, server := range next.Beats.List {
			next.Rates.Late = next.Rates.Late.Plus(server.Lateness)
		}
	}
	// Never modify the slice: a view may share it.
	if s.points = append(s.points, p); len(s.points) > kept {
		s.points = slices.Clone(s.points[len(s.points)-kept:])
	}
}

// fromHistory returns the rates of the last ten seconds of the servers' history, if that is recent.
func (s *sampler) fromHistory(now time.Time, gap time.Duration) (r rates) {
	points := pointsOf(s.past, gap)
	n := len(points)
	if n == 0 || now.Sub(points[n-1].At) > gap {
		return r
	}
	r = rates{Known: true, Moved: points[n-1].Moved.(float64), Acked: inspect.Unknown, Late: s.past[n-1].Lateness}
	if acked, known := points[n-1].Acked.(float64); known {
		r.Acked = acked
	}
	return r
}

// seconds returns how much later the sample is.
func (s *sample) seconds(before *sample) float64 { return s.At.Sub(before.At).Seconds() }

// changes returns how many ready jobs each topic gained per second.
func (s *sample) changes(before *sample) map[string]float64 {
	past, changes := map[string]int{}, map[string]float64{}
	for _, t := range before.Topics {
		past[t.Topic] = t.Ready
	}
	for _, t := range s.Topics {
		if past := past[t.Topic]; past >= 0 && t.Ready >= 0 {
			changes[t.Topic] = float64(t.Ready-past) / s.seconds(before)
		}
	}
	return changes
}

// rates compares two samples. It misses what a server did after its last heartbeat before it ended, and takes
// everything of a server that comes back as new.
func (s *sample) rates(before *sample) rates {
	if before.Beats.Err != nil || s.Beats.Err != nil || len(s.Beats.List) == 0 {
		return rates{}
	}
	r, moved := rates{Known: true}, int64(0)
	for _, server := range s.Beats.List {
		past := store.Totals{}
		if i := slices.IndexFunc(before.Beats.List, func(o store.ServerState) bool { return o.ID == server.ID }); i >= 0 {
			past = before.Beats.List[i].Totals
		} else if server.Started.Before(before.Time) {
			past = server.Totals
		}
		moved += server.Moved - past.Moved
		r.Late = r.Late.Plus(server.Lateness)
		for bucket, n := range past.Lateness.Counts {
			r.Late.Counts[bucket] -= n
		}
	}
	r.Moved = max(float64(moved)/s.seconds(before), 0)
	if r.Acked = inspect.Unknown; before.Beats.Acked >= 0 && s.Beats.Acked >= 0 {
		r.Acked = max(float64(s.Beats.Acked-before.Beats.Acked)/s.seconds(before), 0)
	}
	return r
}

// Change returns how many ready jobs the topic gains or loses per second.
func (s *sample) Change(topic string) string {
	c, ok := s.Changes[topic]
	switch {
	case !ok:
		return "–"
	case c > 0.05:
		return "+" + rate(c)
	case c < -0.05:
		return "−" + rate(-c)
	}
	return "0"
}

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
