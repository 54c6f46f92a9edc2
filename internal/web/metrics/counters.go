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
	c := &counted{
		topics: newTopics(maxTopics),
		dropped: make.NewCounter(prometheus.CounterOpts{
			Name: "delayer_jobs_dropped_total",
			Help: "Entries of the pool and of ready queues dropped because their jobs had expired, were incomplete or gone." + thisProcess,
		}),
		errors: make.NewCounterVec(prometheus.CounterOpts{
			Name: "delayer_errors_total",
			Help: "Passes that failed: kind is unreachable (Redis or the network), refused (no permission) or redis (any other error from Redis)." + thisProcess,
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
			Help: "Duration of passes, in which the server moves all due jobs." + thisProcess,
		}),
		scripts: make.NewHistogramVec(prometheus.HistogramOpts{
			Name: "delayer_script_duration_seconds", Buckets: durations,
			Help: "How long a script blocks Redis, by Redis's clock." + thisProcess,
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

// Pushed counts jobs pushed through this process's HTTP server.
func (c *counted) Pushed(name string, jobs int) {
	c.topics.count(name, func(t *topic) { t.pushed += int64(jobs) })
}

// Moved and the methods below implement server.Observer.
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

// Fired implements server.Observer.
func (m *Metrics) Fired(f server.Fired) {
	m.fired.Add(float64(f.Jobs))
	for reason, moments := range map[string]int{tooLate: f.Late, overlapped: f.Overlapped, paused: f.Paused} {
		m.notRun.WithLabelValues(reason).Add(float64(moments))
	}
	if f.Jobs > 0 {
		m.firedBy.Observe(f.After.Seconds())
	}
}

// lateBounds are the buckets of the lateness histogram, in seconds.
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
	total := l.total
	l.mu.Unlock()
	buckets, below := map[float64]uint64{}, uint64(0)
	for i, bound := range server.LatenessBounds {
		below += uint64(total.Counts[i])
		buckets[bound.Seconds()] = below
	}
	metrics <- prometheus.MustNewConstHistogram(lateBy, uint64(total.Jobs()), total.Sum, buckets)
}
