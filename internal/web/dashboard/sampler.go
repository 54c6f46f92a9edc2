package dashboard

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
)

const (
	samplePause = time.Second
	// After a sample there is a rest of samplePart times its duration, maxRest at most: with thousands of
	// topics a sample takes some 100 ms.
	samplePart, maxRest = 10, 5 * time.Second
	// watchWait is how long the sampler keeps running after the last viewer.
	watchWait = 30 * time.Second
	// rateWindow is the time over which rates and lateness are measured.
	rateWindow = 5 * time.Second
	// soon is how much of rateWindow must have passed before it beats the servers' history.
	soon = 3 * time.Second
	// kept is how many recorded points are kept: some minutes. The servers keep an hour in steps of ten
	// seconds (pastStep).
	kept     = 600
	pastStep = 10 * time.Second
)

// smallPeak is a number of jobs per second that never deserves a warning.
const smallPeak = 100

// forecastBounds are the ends of the forecast's spans.
var forecastBounds = []time.Duration{time.Minute, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour}

// sampler polls Redis at most once a second, however many people watch, and never when nobody does. It
// records the points of the charts.
type sampler struct {
	inspector *inspect.Inspector
	master    func(context.Context) (string, error) // asks the sentinels for the master's address; nil without sentinels
	turn      chan struct{}                         // held by whoever uses the fields below
	last      *sample
	asked     time.Time     // when last was requested
	rest      time.Duration // pause after that
	failed    error         // error instead of last
	points    []point
	recent    []*sample // of the last rateWindow, oldest first
	past      []store.Past
	pastAt    time.Time // when past was read

	looked  atomic.Int64 // last view, in Unix ns
	changed atomic.Bool  // the last sample is known to be outdated
}

func newSampler(op *inspect.Inspector, master func(context.Context) (string, error)) *sampler {
	return &sampler{inspector: op, master: master, turn: make(chan struct{}, 1)}
}

// run samples as long as somebody watches.
func (s *sampler) run(ctx context.Context) {
	tick := time.NewTicker(samplePause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if s.watched(time.Now()) {
			limited, cancel := context.WithTimeout(ctx, readTimeout)
			s.take(limited, samplePause/2)
			cancel()
		}
	}
}

// watched reports whether somebody has looked recently.
func (s *sampler) watched(now time.Time) bool {
	return now.Sub(time.Unix(0, s.looked.Load())) < watchWait
}

// view is what pages show.
type view struct {
	*sample
	Points []point // the last hour, oldest first
	Taken  float64 // most jobs visibly taken in one second of it
}

// latest returns the current view, at most a second old.
func (s *sampler) latest(ctx context.Context) (view, error) {
	s.looked.Store(time.Now().UnixNano())
	return s.take(ctx, samplePause)
}

// take returns the last sample if it is younger than young and still valid, else a new one.
func (s *sampler) take(ctx context.Context, young time.Duration) (view, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return view{}, ctx.Err()
	}
	defer func() { <-s.turn }()
	if changed := s.changed.Swap(false); changed || time.Since(s.asked) >= max(young, s.rest) {
		// Other viewers wait for the same sample, so it outlives this request.
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		began := time.Now()
		s.sample(limited, s.snapshot(limited, changed, young))
		cancel()
		s.asked, s.rest = time.Now(), 0
		if s.failed == nil {
			s.rest = min(samplePart*time.Since(began), maxRest)
		}
	}
	return s.view(), s.failed
}

// snapshot reads Redis, or shares a reading that others began, unless something changed since.
func (s *sampler) snapshot(ctx context.Context, changed bool, young time.Duration) *inspect.Reading[inspect.Snapshot] {
	if !changed {
		return s.inspector.Snapshot(young)
	}
	now := time.Now()
	r := s.inspector.Snapshot(0)
	if r.Began.Before(now) { // began before the change
		r.Wait(ctx)
		r = s.inspector.Snapshot(0)
	}
	return r
}

// view combines recorded points with the servers' history.
func (s *sampler) view() view {
	gap := s.gap(s.last)
	v := view{sample: s.last, Points: join(pointsOf(s.past, gap), s.points, pastStep, gap)}
	for _, p := range v.Points {
		v.Taken = max(v.Taken, p.Taken)
	}
	return v
}

// gap is the maximum distance between connected points: servers write their history as often as they make
// passes.
func (s *sampler) gap(of *sample) time.Duration {
	gap := least
	if of != nil {
		for _, server := range of.Beats.List {
			gap = max(gap, 2*server.Interval+pastStep)
		}
	}
	return gap
}

// sample is the state of Delayer at one time.
type sample struct {
	At time.Time // this machine's clock
	inspect.Counts
	Ready, Reserved, Dead int // sums over all topics, without unreadable ones

	Pauses inspect.Pauses // empty if the Redis user may not read them

	Beats beats
	Rates rates
	// Changes is how many ready jobs each topic gained per second.
	Changes map[string]float64

	seldom
}

// seldom holds values that are expensive or change rarely, and are read less often.
type seldom struct {
	Forecast  forecast
	Schedules inspect.ScheduleStates // empty if unreadable
	Peak      inspect.Peak
	Nodes     []inspect.Info
	Master    string // address according to the sentinels; may be empty
	// Listening is the number of waiters of topics whose jobs have been ready for long, as far as known.
	Listening map[string]int

	forecastAt, schedulesAt, peakAt, infoAt, listeningAt time.Time
}

// since reports whether pause has passed since *last, and if so sets *last.
func (s *sample) since(last *time.Time, pause time.Duration) bool {
	if s.At.Sub(*last) < pause {
		return false
	}
	*last = s.At
	return true
}

// forecast is what falls due before each of the bounds.
type forecast struct {
	Bars []bar
	Err  error
}

// sample adds to the reading everything else that a sample needs.
func (s *sampler) sample(ctx context.Context, reading *inspect.Reading[inspect.Snapshot]) {
	next := &sample{At: reading.Began}
	if s.last != nil {
		next.seldom = s.last.seldom
	}
	read, err := reading.Wait(ctx)
	if s.failed = err; err != nil {
		return
	}
	next.Counts = read.Counts
	for _, t := range next.Topics {
		next.Ready += max(t.Ready, 0)
		next.Reserved += max(t.Reserved, 0)
		next.Dead += max(t.Dead, 0)
	}
	next.Pauses = read.Pauses // an error shows in the counts anyway
	next.Beats = beats{List: read.Servers, Acked: read.Acked, Err: read.ServersErr}
	broken := next.Broken() // calls that need all partitions would only time out
	if broken == nil {
		next.Beats.Err = cmp.Or(read.ServersErr, read.AckedErr)
	}
	if next.Partitions[0].Err == nil && next.since(&s.pastAt, pastStep) {
		// Without the history the charts begin when somebody starts watching.
		s.past, _ = s.inspector.History(ctx)
	}
	s.follow(next)
	if broken != nil {
		next.Forecast, next.forecastAt = forecast{Err: broken}, time.Time{}
	} else if next.since(&next.forecastAt, 5*time.Second) {
		found, err := s.inspector.Forecast(ctx, forecastBounds)
		next.Forecast = forecast{barsOf(found.Spans), cmp.Or(err, found.Broken)}
	}
	if broken == nil && next.since(&next.schedulesAt, 5*time.Second) {
		next.Schedules, _ = s.inspector.RecentScheduleStates(samplePause).Wait(ctx)
	}
	if behind, _ := neglectedOf(next.Topics, next.Pauses); len(behind) > 0 && broken == nil && next.since(&next.listeningAt, 5*time.Second) {
		next.Listening = s.listening(ctx, behind[:min(len(behind), mostAsked)])
	}
	if next.since(&next.infoAt, 10*time.Second) {
		var err error
		if next.Nodes, err = s.inspector.Info(ctx); err != nil {
			next.Nodes = []inspect.Info{{Missing: err.Error()}}
		}
		next.Master = s.askMaster(ctx)
	}
	if most := s.view().Taken; broken == nil && most > 0 && next.since(&next.peakAt, 30*time.Second) {
		// An error is not a warning; the forecast, which fails likewise, shows it.
		next.Peak, _ = s.inspector.Peak(ctx, forecastBounds[len(forecastBounds)-1], max(int(most), smallPeak))
	}
	s.last = next
}

// mostAsked is the number of topics whose waiters are counted.
const mostAsked = 500

// listening returns the number of waiters of each topic.
func (s *sampler) listening(ctx context.Context, topics []inspect.TopicCounts) map[string]int {
	clients, _ := s.inspector.Waiters(ctx, waitedFor(topics)) // without it the status line gives no reason
	of := map[string]int{}
	for i, n := range clients {
		of[topics[i].Topic] = n
	}
	return of
}

// masterPatience is how long a sample waits for the sentinels, which may hang; the page has everything else.
const masterPatience = 500 * time.Millisecond

// askMaster returns the master's address according to the sentinels, or "" if none answers in time.
func (s *sampler) askMaster(ctx context.Context) string {
	if s.master == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, masterPatience)
	defer cancel()
	master, _ := s.master(ctx)
	return master
}

// bar is the number of jobs due before some time.
type bar struct {
	Jobs      int
	Estimated bool
	Percent   float64 // relative to the longest bar
}

// barsOf adds up the spans: what is due within an hour includes what is due within a minute.
func barsOf(spans []inspect.Span) []bar {
	var bars []bar
	jobs, estimated := 0, false
	for _, s := range spans {
		jobs, estimated = jobs+s.Jobs, estimated || s.Estimated
		bars = append(bars, bar{Jobs: jobs, Estimated: estimated})
	}
	for i := range bars {
		if jobs > 0 {
			bars[i].Percent = 100 * float64(bars[i].Jobs) / float64(jobs)
		}
	}
	return bars
}
