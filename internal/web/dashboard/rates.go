package dashboard

import (
	"cmp"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
)

// beats are the heartbeats of the servers.
type beats struct {
	List  []store.ServerState
	Acked int64 // how many jobs were ever acknowledged; inspect.Unknown if that is not known
	Err   error
}

// rates are what happens a second.
type rates struct {
	Known         bool // there are two samples to compare, or the servers' history tells
	Moved         float64
	Acked         float64        // inspect.Unknown if some partition can't be read
	Late          store.Lateness // of the jobs that were moved lately
	LateSinceEver bool           // Late is of all jobs that the servers have moved, as none was moved lately
}

// follow compares the sample with those before it.
func (s *sampler) follow(next *sample) {
	for len(s.recent) > 1 && next.At.Sub(s.recent[1].At) >= rateWindow {
		s.recent = s.recent[1:]
	}
	if n := len(s.recent); n > 0 && next.At.Sub(s.recent[n-1].At) > 3*rateWindow {
		s.recent = nil // nobody has looked for long: a mean of that time tells nothing of now
	}
	p := point{At: cmp.Or(next.Time, next.At), Ready: next.Ready, Reserved: next.Reserved}
	if len(s.recent) > 0 && next.At.After(s.recent[0].At) {
		first := s.recent[0]
		next.Rates, next.Changes = next.rates(first), next.changes(first)
		if r := next.Rates; r.Known {
			// What came into the queues without waiting is not known: it can be more than this.
			p.Taken = max(r.Acked, r.Moved-float64(next.Ready-first.Ready)/next.seconds(first))
		}
	}
	if len(s.recent) == 0 || next.At.Sub(s.recent[0].At) < soon {
		// Servers tell of each second when it is over: there is nothing to compare with yet.
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
	// The slice is never written to again where a view may have it.
	if s.points = append(s.points, p); len(s.points) > kept {
		s.points = slices.Clone(s.points[len(s.points)-kept:])
	}
}

// fromHistory returns the rates of the last ten seconds in the servers' history, if these ended just before now.
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

// seconds is how much later it is than the other one.
func (s *sample) seconds(before *sample) float64 { return s.At.Sub(before.At).Seconds() }

// changes are by how much the ready jobs of each topic became more in a second.
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

// rates are what has happened a second since the other one. What a server did that ended meanwhile,
// after its last heartbeat, is not known; nor how much of all is new that one did which had been
// taken for gone.
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

// Change is by how much the topic's ready jobs become more or fewer in a second.
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
