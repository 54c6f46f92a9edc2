package dashboard

import (
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// point is a place on the charts: the mean of some seconds until then. What is not known, or was not
// watched, is not OK.
type point struct {
	At              time.Time // by Redis's clock, where that is known
	Ready, Reserved int
	QueuesOK        bool
	Moved, Acked    float64 // a second
	MovedOK         bool
	AckedOK         bool
	Median, Worst   time.Duration // by how much jobs were late
	LateOK          bool          // there were any
	Taken           float64       // a second, by consumers, as far as can be seen
}

// hour is for how long charts go back.
const hour = time.Hour

// least is how far points may be apart that belong together, if the servers look often.
const least = 15 * time.Second

// pointAt is that of a sample, without rates.
func pointAt(s *sample) point {
	at := s.Time
	if at.IsZero() {
		at = s.At
	}
	return point{At: at, Ready: s.Ready, Reserved: s.Reserved, QueuesOK: true}
}

// pointsOf are those of what the servers have kept.
func pointsOf(past []store.Past, gap time.Duration) []point {
	points := make([]point, len(past))
	for i, p := range past {
		seconds := p.Until.Sub(p.From).Seconds()
		jobs := p.Lateness.Jobs()
		at := point{At: p.Until, MovedOK: true, Moved: float64(jobs) / seconds, LateOK: jobs > 0, Median: p.Lateness.Quantile(0.5), Worst: p.Lateness.Quantile(0.99)}
		if i > 0 && p.Acked >= 0 && past[i-1].Acked >= 0 && p.Until.Sub(past[i-1].Until) <= gap {
			at.AckedOK, at.Acked = true, max(float64(p.Acked-past[i-1].Acked), 0)/p.Until.Sub(past[i-1].Until).Seconds()
			at.Taken = at.Acked
		}
		points[i] = at
	}
	return points
}

// join is the last hour: what was watched from here, and of what was not, what the servers have kept.
// Where there is neither for longer than gap, a point of nothing stands.
func join(past, watched []point, step, gap time.Duration) []point {
	var all []point
	add := func(p point) {
		if n := len(all); n > 0 && p.At.Sub(all[n-1].At) > gap {
			all = append(all, point{At: all[n-1].At.Add(time.Millisecond)})
		}
		all = append(all, p)
	}
	next := 0
	for _, p := range past {
		for next < len(watched) && !watched[next].At.After(p.At.Add(-step)) {
			add(watched[next])
			next++
		}
		if next == len(watched) || watched[next].At.After(p.At) {
			add(p)
		}
	}
	for _, p := range watched[next:] {
		add(p)
	}
	if len(all) == 0 {
		return nil
	}
	for first := all[len(all)-1].At.Add(-hour); all[0].At.Before(first); {
		all = all[1:]
	}
	return all
}

// mostTaken is how many jobs consumers were seen to take in a second, at most.
func mostTaken(points []point) (most float64) {
	for _, p := range points {
		most = max(most, p.Taken)
	}
	return most
}
