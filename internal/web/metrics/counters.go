package metrics

import (
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/server"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// thisProcess ends the help of what this process has counted.
const thisProcess = " By this process: aggregate by sum."

// counted is what this process has counted.
type counted struct {
	topics  *topics
	dropped prometheus.Counter
	errors  *prometheus.CounterVec // by kind
	late    lateness
	fired   prometheus.Counter
	notRun  *prometheus.CounterVec // by reason
	firedBy prometheus.Histogram
	passes  prometheus.Histogram
	scripts *prometheus.HistogramVec // by script
}

// durations are the buckets of how long passes and scripts take, in seconds.
var durations = []float64{.0002, .0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 60}

// newCounted makes what counts, and enters it in the registry; but for the topics.
func newCounted(registry *prometheus.Registry, maxTopics int) *counted {
	make := promauto.With(registry)
	c := &counted{
		topics: newTopics(maxTopics),
		dropped: make.NewCounter(prometheus.CounterOpts{
			Name: "delayer_jobs_dropped_total",
			Help: "Entries of the pool and of ready queues that were dropped since their jobs had expired, were incomplete or gone." + thisProcess,
		}),
		errors: make.NewCounterVec(prometheus.CounterOpts{
			Name: "delayer_errors_total",
			Help: "Passes that failed: kind is unreachable (Redis or the network), refused (Redis won't have us) or redis (any other answer of Redis)." + thisProcess,
		}, []string{"kind"}),
		fired: make.NewCounter(prometheus.CounterOpts{
			Name: "delayer_schedule_jobs_total",
			Help: "Jobs pushed by schedules." + thisProcess,
		}),
		notRun: make.NewCounterVec(prometheus.CounterOpts{
			Name: "delayer_schedule_occurrences_without_job_total",
			Help: "Occurrences of schedules that produced no job: reason is late (no server was running in time), overlapped (the previous job was not done) or paused." + thisProcess,
		}, []string{"reason"}),
		firedBy: make.NewHistogram(prometheus.HistogramOpts{
			Name: "delayer_schedule_lateness_seconds", Buckets: lateBounds(),
			Help: "How late schedules pushed their jobs." + thisProcess,
		}),
		passes: make.NewHistogram(prometheus.HistogramOpts{
			Name: "delayer_pass_duration_seconds", Buckets: durations,
			Help: "How long passes take, in which the server looks for due jobs and moves all there are." + thisProcess,
		}),
		scripts: make.NewHistogramVec(prometheus.HistogramOpts{
			Name: "delayer_script_duration_seconds", Buckets: durations,
			Help: "How long a script keeps Redis from others, by Redis's clock." + thisProcess,
		}, []string{"script"}),
	}
	registry.MustRegister(prometheus.CollectorFunc(c.late.collect))
	for _, kind := range []string{unreachable, refused, otherAnswer} {
		c.errors.WithLabelValues(kind)
	}
	for _, reason := range []string{tooLate, overlapped, paused} {
		c.notRun.WithLabelValues(reason)
	}
	for _, script := range []string{"due", "move"} {
		c.scripts.WithLabelValues(script)
	}
	return c
}

// Pushed counts jobs that were pushed through this process's HTTP front.
func (c *counted) Pushed(name string, jobs int) {
	c.topics.count(name, func(t *topic) { t.pushed += int64(jobs) })
}

// Moved is for server.Observer, as the following.
func (m *Metrics) Moved(name string, moved server.Moved) {
	m.topics.count(name, func(t *topic) {
		t.moved += int64(moved.Jobs)
		t.returned += int64(moved.Returned)
	})
	m.late.add(moved.Late)
}

// Why a moment of a schedule has no job.
const (
	tooLate    = "late"
	overlapped = "overlapped"
	paused     = "paused"
)

// Fired is for server.Observer.
func (m *Metrics) Fired(f server.Fired) {
	m.fired.Add(float64(f.Jobs))
	for reason, moments := range map[string]int{tooLate: f.Late, overlapped: f.Overlapped, paused: f.Paused} {
		m.notRun.WithLabelValues(reason).Add(float64(moments))
	}
	if f.Jobs > 0 {
		m.firedBy.Observe(f.After.Seconds())
	}
}

// lateBounds are those of the lateness of jobs, in seconds.
func lateBounds() (bounds []float64) {
	for _, bound := range server.LatenessBounds {
		bounds = append(bounds, bound.Seconds())
	}
	return bounds
}

func (m *Metrics) Dropped(jobs int) { m.dropped.Add(float64(jobs)) }

func (m *Metrics) Passed(took time.Duration, err error) {
	m.passes.Observe(took.Seconds())
	if err != nil {
		m.errors.WithLabelValues(kindOf(err)).Inc()
		return
	}
	m.works()
}

func (m *Metrics) Called(script string, took time.Duration) {
	m.scripts.WithLabelValues(script).Observe(took.Seconds())
	m.works() // a pass may take minutes
}

// The kinds of errors.
const (
	unreachable = "unreachable"
	refused     = "refused"
	otherAnswer = "redis"
)

func kindOf(err error) string {
	switch store.KindOf(err) {
	case store.NoError, store.NoAnswer:
		return unreachable
	case store.Denied:
		return refused
	}
	return otherAnswer
}

var lateBy = prometheus.NewDesc("delayer_job_lateness_seconds", "By how much jobs were late when they became ready."+thisProcess, nil, nil)

// lateness is the histogram that the server counts.
type lateness struct {
	mu    sync.Mutex
	total server.Lateness
}

func (l *lateness) add(jobs server.Lateness) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total = l.total.Plus(jobs)
}

// collect is for prometheus.CollectorFunc.
func (l *lateness) collect(metrics chan<- prometheus.Metric) {
	l.mu.Lock()
	total := l.total
	l.mu.Unlock()
	buckets, below := map[float64]uint64{}, uint64(0)
	for i, bound := range server.LatenessBounds {
		below += uint64(total.Counts[i])
		buckets[bound.Seconds()] = below
	}
	metrics <- prometheus.MustNewConstHistogram(lateBy, uint64(total.Jobs()), total.Sum, buckets)
}
