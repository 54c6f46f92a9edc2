package dashboard

import (
	"cmp"
	"slices"
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
