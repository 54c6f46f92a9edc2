package dashboard

import (
	"cmp"
	"context"
	"math"
	"sort"
	"strconv"
	"time"

	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/view"
)

const (
	// countsAge is how old counts may be, seldomAge what is expensive or changes rarely.
	countsAge, seldomAge = time.Second, 5 * time.Second
	// masterPatience is how long a page waits for the sentinels, which may hang; it has everything else.
	masterPatience = 500 * time.Millisecond
	// mostAsked is the number of topics whose waiters are counted.
	mostAsked = 500
)

// readings are reads of Redis, shared by all viewers.
type readings struct {
	past     *inspect.Shared[[]store.Past]
	forecast *inspect.Shared[inspect.Forecast]
	nodes    *inspect.Shared[[]inspect.Info]
	master   *inspect.Shared[string] // address according to the sentinels; may be empty
	// listening is the number of waiters of topics whose jobs have been ready for long, as far as known.
	listening *inspect.Shared[map[string]int]
}

// newReadings returns readings of the inspector. master asks the sentinels for the master's address; nil without sentinels.
func newReadings(op *inspect.Inspector, master func(context.Context) (string, error)) readings {
	return readings{
		past:  inspect.NewShared(readTimeout, op.History),
		nodes: inspect.NewShared(readTimeout, op.Info),
		forecast: inspect.NewShared(readTimeout, func(ctx context.Context) (inspect.Forecast, error) {
			return op.Forecast(ctx, view.Forecast)
		}),
		master: inspect.NewShared(masterPatience, func(ctx context.Context) (string, error) {
			if master == nil {
				return "", nil
			}
			return master(ctx)
		}),
		listening: inspect.NewShared(readTimeout, func(ctx context.Context) (map[string]int, error) {
			read, _ := op.Snapshot(countsAge).Wait(ctx)
			behind, _ := neglectedOf(read.Topics, read.Pauses)
			behind = behind[:min(len(behind), mostAsked)]
			clients, err := op.Waiters(ctx, waitedFor(behind))
			of := map[string]int{}
			for i, n := range clients {
				of[behind[i].Topic] = n
			}
			return of, err
		}),
	}
}

// state is what pages show of Delayer at one time.
type state struct {
	inspect.Counts
	Ready, Reserved, Dead int // sums over all topics, without unreadable ones

	Pauses     inspect.Pauses // empty if the Redis user may not read them
	Servers    []store.ServerState
	ServersErr error // why these or what consumers acknowledged can't be read
	history

	// Only the overview has what follows. Errors show elsewhere on it.
	Forecast  forecast
	Schedules inspect.ScheduleStates
	Nodes     []inspect.Info
	Master    string
	Listening map[string]int
}

// state returns the current state, without what only the overview has, and uses its time.
func (p *page) state() (*state, error) {
	read, err := p.snapshot(p.ctx)
	if err != nil {
		return nil, err
	}
	p.setClock(read.Time)
	s := &state{Counts: read.Counts, Pauses: read.Pauses, Servers: read.Servers, ServersErr: read.ServersErr}
	for _, t := range s.Topics {
		s.Ready += max(t.Ready, 0)
		s.Reserved += max(t.Reserved, 0)
		s.Dead += max(t.Dead, 0)
	}
	if s.Broken() == nil {
		s.ServersErr = cmp.Or(read.ServersErr, read.AckedErr)
	}
	var past []store.Past
	if s.Partitions[0].Err == nil { // it has the history
		past, _ = p.past.Current(seldomAge).Wait(p.ctx) // without it there are no charts
	}
	s.history = historyOf(past, s.Servers, p.now)
	return s, nil
}

// snapshot returns a reading that began at most countsAge ago, and after the last action.
func (d *Dashboard) snapshot(ctx context.Context) (inspect.Snapshot, error) {
	acted := time.Unix(0, d.acted.Load())
	read := func() *inspect.Reading[inspect.Snapshot] {
		return d.inspector.Snapshot(min(countsAge, time.Since(acted)))
	}
	r := read()
	if r.Began.Before(acted) { // and was under way
		r.Wait(ctx)
		r = read()
	}
	return r.Wait(ctx)
}

// touch makes the next page read what an action has changed.
func (d *Dashboard) touch() { d.acted.Store(time.Now().UnixNano()) }

// complete adds what only the overview shows.
func (d *Dashboard) complete(ctx context.Context, s *state) {
	nodes, master := d.nodes.Current(2*seldomAge), d.master.Current(2*seldomAge)
	if s.Forecast.Err = s.Broken(); s.Forecast.Err == nil { // calls that need all partitions would only time out
		forecasts, listening := d.forecast.Current(seldomAge), d.listening.Current(seldomAge)
		schedules := d.inspector.RecentScheduleStates(countsAge)
		found, err := forecasts.Wait(ctx)
		s.Forecast = forecast{barsOf(found.Spans), cmp.Or(err, found.Broken)}
		s.Schedules, _ = schedules.Wait(ctx)
		s.Listening, _ = listening.Wait(ctx)
	}
	s.Master, _ = master.Wait(ctx)
	var err error
	if s.Nodes, err = nodes.Wait(ctx); err != nil {
		s.Nodes = []inspect.Info{{Missing: err.Error()}}
	}
}

// forecast is what falls due before each of the bounds.
type forecast struct {
	Bars []bar
	Err  error
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
