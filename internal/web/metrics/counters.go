package metrics

import (
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/server"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// thisProcess ends the help of metrics that this process counts.
const thisProcess = " By this process: aggregate by sum."

// counted holds everything this process counts.
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

// durations are histogram buckets for passes and scripts, in seconds.
var durations = []float64{.0002, .0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 60}

// newCounted creates the counters and registers all but those of topics.
func newCounted(registry *prometheus.Registry, maxTopics int) *counted {
	make := promauto.With(registry)
	counter := func(name, help string) prometheus.Counter {
		return make.NewCounter(prometheus.CounterOpts{Name: "delayer_" + name, Help: help + thisProcess})
	}
	counters := func(name, help, label string, values ...string) *prometheus.CounterVec {
		all := make.NewCounterVec(prometheus.CounterOpts{Name: "delayer_" + name, Help: help + thisProcess}, []string{label})
		for _, value := range values {
			all.WithLabelValues(value) // present from the start, with 0
		}
		return all
	}
	histogram := func(name, help string, buckets []float64) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Name: "delayer_" + name, Help: help + thisProcess, Buckets: buckets}
	}
	c := &counted{
		topics:  newTopics(maxTopics),
		dropped: counter("jobs_dropped_total", "Entries of the pool and of ready queues dropped because their jobs had expired, were about to, were incomplete or gone."),
		errors: counters("errors_total", "Passes that failed: kind is unreachable (Redis or the network), refused (no permission) or redis (any other error from Redis).",
			"kind", unreachable, refused, otherAnswer),
		fired: counter("schedule_jobs_total", "Jobs pushed by schedules."),
		notRun: counters("schedule_occurrences_without_job_total", "Occurrences of schedules that produced no job: reason is late (no server was running in time), overlapped (the previous job was not done) or paused.",
			"reason", tooLate, overlapped, paused),
		firedBy: make.NewHistogram(histogram("schedule_lateness_seconds", "How late schedules pushed their jobs.", lateBounds())),
		passes:  make.NewHistogram(histogram("pass_duration_seconds", "Duration of passes, in which the server moves all due jobs.", durations)),
		scripts: make.NewHistogramVec(histogram("script_duration_seconds", "How long a script blocks Redis, by Redis's clock.", durations), []string{"script"}),
	}
	registry.MustRegister(prometheus.CollectorFunc(c.late.collect))
	for _, script := range []string{"due", "move"} {
		c.scripts.WithLabelValues(script)
	}
	return c
}

// Pushed counts jobs pushed through this process's HTTP server.
func (c *counted) Pushed(name string, jobs int) {
	c.topics.count(name, func(t *topic) { t.pushed += int64(jobs) })
}

// Hooks count what this process's server does.
func (m *Metrics) Hooks() server.Hooks {
	return server.Hooks{Moved: m.Moved, Dropped: m.Dropped, Passed: m.Passed, Called: m.Called, Fired: m.Fired}
}

func (m *Metrics) Moved(name string, moved server.Moved) {
	m.topics.count(name, func(t *topic) {
		t.moved += int64(moved.Jobs)
		t.returned += int64(moved.Returned)
	})
	m.late.add(moved.Late)
}

// Why an occurrence of a schedule has no job.
const (
	tooLate    = "late"
	overlapped = "overlapped"
	paused     = "paused"
)

func (m *Metrics) Fired(f server.Fired) {
	m.fired.Add(float64(f.Jobs))
	for reason, occurrences := range map[string]int{tooLate: f.Late, overlapped: f.Overlapped, paused: f.Paused} {
		m.notRun.WithLabelValues(reason).Add(float64(occurrences))
	}
	if f.Jobs > 0 {
		m.firedBy.Observe(f.After.Seconds())
	}
}

// lateBounds are the buckets of the lateness histogram, in seconds.
func lateBounds() (bounds []float64) {
	for _, bound := range server.LatenessBounds() {
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

// Kinds of errors.
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

var lateBy = prometheus.NewDesc("delayer_job_lateness_seconds", "How late jobs became ready."+thisProcess, nil, nil)

// lateness is the histogram of jobs' lateness, in the server's buckets.
type lateness struct {
	mu    sync.Mutex
	total server.Lateness
}

func (l *lateness) add(jobs server.Lateness) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total = l.total.Plus(jobs)
}

// collect is a prometheus.CollectorFunc.
func (l *lateness) collect(metrics chan<- prometheus.Metric) {
	l.mu.Lock()
	total := l.total.Plus(server.Lateness{}) // which has all counts, also before the first job
	l.mu.Unlock()
	buckets, below := map[float64]uint64{}, uint64(0)
	for i, bound := range server.LatenessBounds() {
		below += uint64(total.Counts[i])
		buckets[bound.Seconds()] = below
	}
	metrics <- prometheus.MustNewConstHistogram(lateBy, uint64(total.Jobs()), total.Sum, buckets)
}
