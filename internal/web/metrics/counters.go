package metrics

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/server"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	dto "github.com/prometheus/client_model/go"
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

const (
	// defaultTopics is the default of Options.Topics.
	defaultTopics = 1000
	// maxLabel is the maximum length in bytes of a topic with its own series.
	maxLabel = 256
	// others is the label of all other topics.
	others = "other"
)

// topics assigns labels. A topic gets one when it is first seen, while some are left, and loses it when it is
// dead: Redis no longer knows it or used other topics later, and nothing was counted for it since the
// previous scrape. If it comes back its counters start at 0, like those of a restarted process, which
// Prometheus handles. Jobs counted meanwhile stay under "other", so that none is counted twice.
type topics struct {
	max    int
	mu     sync.Mutex
	byName map[string]*topic
	others *topic // all topics without a label
}

// topic has the counters of a topic.
type topic struct {
	label                   []*dto.LabelPair
	pushed, moved, returned int64
	told                    int64 // total at the previous scrape
}

func newTopics(max int) *topics {
	return &topics{max: max, byName: map[string]*topic{}, others: newTopic(others)}
}

func newTopic(name string) *topic { return &topic{label: []*dto.LabelPair{label("topic", name)}} }

// count calls count with the topic's counters, or those of the others.
func (t *topics) count(name string, count func(*topic)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	count(t.add(name))
}

// add returns the topic's counters, with a new label if one is left, or else the others.
func (t *topics) add(name string) *topic {
	if t.byName[name] == nil && len(name) <= maxLabel && len(t.byName) < t.max {
		name = strings.Clone(name)
		t.byName[name] = newTopic(labelOf(name))
	}
	return cmp.Or(t.byName[name], t.others)
}

// live updates the labels: used lists the live topics, the last used last. Dead topics lose their labels to
// live ones, the last used first.
func (t *topics) live(used []string) {
	alive := make(map[string]bool, len(used))
	for _, name := range used {
		alive[name] = true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, topic := range t.byName {
		counted := topic.counted()
		if !alive[name] && counted == topic.told {
			delete(t.byName, name)
		}
		topic.told = counted
	}
	for i := len(used) - 1; i >= 0 && len(t.byName) < t.max; i-- {
		t.add(used[i])
	}
}

func (t *topic) counted() int64 { return t.pushed + t.moved + t.returned }

// of returns the topic's counters, or those of the others.
func (t *topics) of(name string) *topic {
	t.mu.Lock()
	defer t.mu.Unlock()
	return cmp.Or(t.byName[name], t.others)
}

// all returns the labelled topics by name, and the others. The caller holds mu.
func (t *topics) all() []*topic {
	all := make([]*topic, 0, len(t.byName)+1)
	for _, name := range slices.Sorted(maps.Keys(t.byName)) {
		all = append(all, t.byName[name])
	}
	return append(all, t.others)
}

// labelOf returns the name if it is a valid, unambiguous label, else quotes it like Go. Names that look
// quoted are quoted too, so no two topics share a label.
func labelOf(name string) string {
	if !utf8.ValidString(name) || name == others || strings.HasPrefix(name, `"`) {
		return strconv.Quote(name)
	}
	return name
}
