package dashboard

import (
	"time"

	"github.com/mix-basic/delayer/internal/operator"
	"github.com/mix-basic/delayer/internal/store"
)

// rates are what happens a second.
type rates struct {
	Known         bool // there are two readings to compare
	Moved, Acked  float64
	Late          store.Lateness // of the jobs that were moved lately
	LateSinceEver bool           // Late is of all jobs that the servers have moved, as none was moved lately
}

// Median and Worst are by how much half, and 99 of 100, of the jobs were late at most.
func (r rates) Median() time.Duration { return r.Late.Quantile(0.5) }
func (r rates) Worst() time.Duration  { return r.Late.Quantile(0.99) }

// reading is what rates are taken of.
type reading struct {
	at    time.Time
	ready int
	of    []operator.TopicCounts
	beats beats
}

// follow compares the sample with those before it.
func (s *sampler) follow(next *sample) {
	now := reading{next.At, next.Ready, next.Topics, next.Beats}
	for len(s.recent) > 1 && next.At.Sub(s.recent[1].at) >= rateWindow {
		s.recent = s.recent[1:]
	}
	if n := len(s.recent); n > 0 && next.At.Sub(s.recent[n-1].at) > least {
		s.recent = nil // nobody has looked for long: a mean of that time tells nothing of now
	}
	p := pointAt(next)
	if len(s.recent) > 0 && now.at.After(s.recent[0].at) {
		first := s.recent[0]
		next.Rates, next.Changes = first.until(now), first.changes(now)
		if r := next.Rates; r.Known {
			p.Moved, p.MovedOK, p.Acked, p.AckedOK = r.Moved, true, r.Acked, true
			p.LateOK, p.Median, p.Worst = r.Late.Jobs() > 0, r.Median(), r.Worst()
			grown := float64(now.ready-first.ready) / now.at.Sub(first.at).Seconds()
			// What came into the queues without waiting is not known: it can be more than this.
			p.Taken = max(r.Acked, r.Moved-grown)
		}
	}
	s.recent = append(s.recent, now)
	if next.Rates.Late.Jobs() == 0 {
		next.Rates.LateSinceEver, next.Rates.Late = true, next.Beats.late()
	}
	// The slice is never written to again where a view may have it.
	if s.points = append(s.points, p); len(s.points) > kept {
		s.points = append([]point(nil), s.points[len(s.points)-kept:]...)
	}
}

// changes are by how much the ready jobs of each topic became more in a second.
func (r reading) changes(now reading) map[string]float64 {
	seconds, before := now.at.Sub(r.at).Seconds(), map[string]int{}
	for _, t := range r.of {
		before[t.Topic] = t.Ready
	}
	changes := map[string]float64{}
	for _, t := range now.of {
		if past := before[t.Topic]; past >= 0 && t.Ready >= 0 {
			changes[t.Topic] = float64(t.Ready-past) / seconds
		}
	}
	return changes
}

// until is what happened a second between two readings.
func (r reading) until(now reading) rates {
	if r.beats.Err != nil || now.beats.Err != nil || len(now.beats.List) == 0 {
		return rates{}
	}
	moved, late := now.beats.since(r.beats)
	seconds := now.at.Sub(r.at).Seconds()
	return rates{
		Known: true,
		Moved: max(float64(moved)/seconds, 0),
		Acked: max(float64(now.beats.Acked-r.beats.Acked)/seconds, 0),
		Late:  late,
	}
}
