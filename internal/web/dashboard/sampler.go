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
	// samplePart is for how many times as long as a sample took there is none, for maxRest at most: with
	// thousands of topics one takes some 100 ms.
	samplePart, maxRest = 10, 5 * time.Second
	// watchWait is for how long the sampler goes on when nobody looks any more.
	watchWait = 30 * time.Second
	// rateWindow is the time over which rates and the lateness are taken.
	rateWindow = 5 * time.Second
	// soon is how much of that must be over before it tells more than the servers' history.
	soon = 3 * time.Second
	// kept is how many points are kept of what is watched: some minutes. The servers keep an hour, ten
	// seconds at a time (pastStep).
	kept     = 600
	pastStep = 10 * time.Second
)

// smallPeak is how many jobs in a second nobody needs to be warned of.
const smallPeak = 100

// forecastBounds are the ends of the spans in which jobs fall due.
var forecastBounds = []time.Duration{time.Minute, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour}

// sampler asks Redis how things are, once a second at most, however many look, and never when nobody
// does. It keeps what the charts show.
type sampler struct {
	inspector *inspect.Inspector
	master    func(context.Context) (string, error) // asks where it is; nil without sentinels
	turn      chan struct{}                         // who holds it may touch what is below
	last      *sample
	asked     time.Time     // when last was asked for
	rest      time.Duration // for how long then not to ask again
	failed    error         // instead of last
	points    []point
	recent    []*sample // of the last rateWindow, the oldest first
	past      []store.Past
	pastAt    time.Time // when past was asked for

	looked  atomic.Int64 // Unix ns
	changed atomic.Bool  // what was sampled is known to be old
}

func newSampler(op *inspect.Inspector, master func(context.Context) (string, error)) *sampler {
	return &sampler{inspector: op, master: master, turn: make(chan struct{}, 1)}
}

// run keeps sampling as long as somebody looks.
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

// watched reports whether somebody has looked lately.
func (s *sampler) watched(now time.Time) bool {
	return now.Sub(time.Unix(0, s.looked.Load())) < watchWait
}

// view is what there is to see.
type view struct {
	*sample
	Points []point // the last hour, the oldest first
	Taken  float64 // the most jobs that consumers were seen to take in a second of it
}

// look is how things are, or were a moment ago.
func (s *sampler) look(ctx context.Context) (view, error) {
	s.looked.Store(time.Now().UnixNano())
	return s.take(ctx, samplePause)
}

// take asks Redis unless the last sample is younger than that, and nothing was done here since.
func (s *sampler) take(ctx context.Context, young time.Duration) (view, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return view{}, ctx.Err()
	}
	defer func() { <-s.turn }()
	if changed := s.changed.Swap(false); changed || time.Since(s.asked) >= max(young, s.rest) {
		// Others wait for the same; it goes on without the one who asks.
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

// snapshot is one that others may have read just before, unless something was changed since.
func (s *sampler) snapshot(ctx context.Context, changed bool, young time.Duration) *inspect.Reading[inspect.Snapshot] {
	if !changed {
		return s.inspector.Snapshot(young)
	}
	now := time.Now()
	r := s.inspector.Snapshot(0)
	if r.Began.Before(now) { // it was under way
		r.Wait(ctx)
		r = s.inspector.Snapshot(0)
	}
	return r
}

// view joins what was watched with what the servers have kept.
func (s *sampler) view() view {
	gap := s.gap(s.last)
	v := view{sample: s.last, Points: join(pointsOf(s.past, gap), s.points, pastStep, gap)}
	for _, p := range v.Points {
		v.Taken = max(v.Taken, p.Taken)
	}
	return v
}

// gap is how far points are apart at most where none is missing: a server writes its history as often as it looks.
func (s *sampler) gap(of *sample) time.Duration {
	gap := least
	if of != nil {
		for _, server := range of.Beats.List {
			gap = max(gap, 2*server.Interval+pastStep)
		}
	}
	return gap
}

// sample is how things are at a moment.
type sample struct {
	At time.Time // by this machine's clock
	inspect.Counts
	Ready, Reserved, Dead int // of all topics; those that can't be read don't count

	Strays []store.Stray // jobs that nobody looks for

	Pauses inspect.Pauses // none where this Redis user may not know

	Beats beats
	Rates rates
	// Changes are by how much the ready jobs of the topics became more in a second.
	Changes map[string]float64

	seldom
}

// seldom is what is dear or seldom changes: it is asked for less often.
type seldom struct {
	Forecast  forecast
	Schedules inspect.ScheduleStates // none where they can't be read
	Peak      inspect.Peak
	Nodes     []inspect.Info
	Master    string // its address, as the sentinels say; empty if none does
	// Listening is how many clients wait for those topics whose jobs have been ready for long, as far as that is known.
	Listening map[string]int

	forecastAt, schedulesAt, peakAt, infoAt, listeningAt time.Time
}

// since reports whether so much time is over, and then counts it from now on.
func (s *sample) since(last *time.Time, pause time.Duration) bool {
	if s.At.Sub(*last) < pause {
		return false
	}
	*last = s.At
	return true
}

// forecast is what falls due until each of the bounds.
type forecast struct {
	Bars []bar
	Err  error
}

// sample takes what was read, and asks for the rest.
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
	next.Strays = read.Strays
	next.Pauses = read.Pauses // a failure shows by itself, in the counts
	next.Beats = beats{List: read.Servers, Acked: read.Acked, Err: read.ServersErr}
	broken := next.Broken() // what needs all of the partitions would only wait for those
	if broken == nil {
		next.Beats.Err = cmp.Or(read.ServersErr, read.AckedErr)
	}
	if next.Partitions[0].Err == nil && next.since(&s.pastAt, pastStep) {
		// Without it the charts begin when somebody looks.
		s.past, _ = s.inspector.History(ctx)
	}
	s.follow(next)
	if broken != nil {
		next.Forecast, next.forecastAt = forecast{Err: broken}, time.Time{}
	} else if next.since(&next.forecastAt, 5*time.Second) {
		spans, err := s.inspector.Forecast(ctx, forecastBounds)
		next.Forecast = forecast{barsOf(spans), err}
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
		// A failure is no warning; the forecast, which fails likewise, tells of it.
		next.Peak, _ = s.inspector.Peak(ctx, forecastBounds[len(forecastBounds)-1], max(int(most), smallPeak))
	}
	s.last = next
}

// mostAsked is of how many topics a look asks who waits for them.
const mostAsked = 500

// listening asks how many clients wait for each of the topics.
func (s *sampler) listening(ctx context.Context, topics []inspect.TopicCounts) map[string]int {
	clients, _ := s.inspector.Waiters(ctx, waitedFor(topics)) // without it the line does not say why
	of := map[string]int{}
	for i, n := range clients {
		of[topics[i].Topic] = n
	}
	return of
}

// masterPatience is for how long a look waits for sentinels, one of which may hang: the page has all else.
const masterPatience = 500 * time.Millisecond

// askMaster asks the sentinels where the master is; empty if none says that in time.
func (s *sampler) askMaster(ctx context.Context) string {
	if s.master == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, masterPatience)
	defer cancel()
	master, _ := s.master(ctx)
	return master
}

// bar is how many jobs fall due until so long from now.
type bar struct {
	Jobs      int
	Estimated bool
	Percent   float64 // of the longest bar
}

// barsOf adds the spans up: what falls due within an hour includes what does within a minute.
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
