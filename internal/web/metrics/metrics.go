// Package metrics is what monitoring asks: /metrics for Prometheus, and the probes /healthz and
// /readyz.
//
// It tells two kinds of numbers. What is read from Redis when it is asked for is of all servers
// and programs together, and every front tells the same. What this process has counted is to be
// added to what others have.
package metrics

import (
	"cmp"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzip"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/web"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/common/expfmt"
)

// Options of Metrics. The zero value works.
type Options struct {
	// Topics is how many topics have series of their own, of those that live; the others share the
	// label "other". 0 means 1,000, less than 0 none.
	Topics int
	// Version is that of this program.
	Version string
	// Interval is that of this process's server. 0 means 1 s.
	Interval time.Duration
	// ReadyMaxLate is for how long a job may have been due, without being moved, while /readyz
	// says that all is well. 0 means that it doesn't look at that.
	ReadyMaxLate time.Duration
}

// fresh is for how long what was read of Redis serves others who ask: however many do, and however often, they cost Redis one read a second.
const fresh = time.Second

// Metrics are a server.Observer, and what it has observed. Make them with New.
type Metrics struct {
	*counted
	registry  *prometheus.Registry
	inspector *inspect.Inspector
	overdue   *inspect.Shared[inspect.Overdue]
	acked     steady

	interval     time.Duration
	readyMaxLate time.Duration
	now          func() time.Time // time.Now, but for tests
	fresh        time.Duration    // but for tests
	worked       atomic.Int64     // when this process's server last had success, in Unix ms; see works
}

// New makes Metrics, with what the Inspector sees.
func New(op *inspect.Inspector, o Options) *Metrics {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	promauto.With(registry).NewGauge(prometheus.GaugeOpts{
		Name:        "delayer_build_info",
		Help:        "Always 1; the labels say which program this is.",
		ConstLabels: prometheus.Labels{"version": o.Version, "goversion": runtime.Version()},
	}).Set(1)
	op.CountTopics(o.Topics)
	return &Metrics{
		counted:      newCounted(registry, max(cmp.Or(o.Topics, defaultTopics), 0)),
		registry:     registry,
		inspector:    op,
		overdue:      inspect.NewShared(overdueTimeout, op.Overdue),
		interval:     cmp.Or(max(o.Interval, 0), time.Second),
		readyMaxLate: o.ReadyMaxLate,
		now:          time.Now,
		fresh:        fresh,
	}
}

// Area is that of /metrics.
func (m *Metrics) Area() web.Area {
	compress, err := gzhttp.NewWrapper(gzhttp.CompressionLevel(gzip.BestSpeed)) // others make the text no smaller
	if err != nil {
		panic(err) // the level is a constant
	}
	return web.Area{Handler: compress(http.HandlerFunc(m.serve)), Patterns: []string{"GET /metrics"}}
}

// serve tells all there is. While Redis is asked, what this process has counted is written: with
// promhttp, which has all at once, a scrape of 1,000 topics would take 2 ms longer.
func (m *Metrics) serve(w http.ResponseWriter, r *http.Request) {
	snapshot, schedules := m.inspector.Snapshot(m.fresh), m.inspector.RecentScheduleStates(m.fresh)
	format := expfmt.Negotiate(r.Header)
	w.Header().Set("Content-Type", string(format))
	encoder := expfmt.NewEncoder(w, format)
	encode := func(families ...family) {
		for _, f := range families {
			if len(f.Metric) > 0 {
				encoder.Encode(f.MetricFamily) // an error is the client's, who has gone
			}
		}
	}
	registered, _ := m.registry.Gather() // an error is of some collector, the others are there
	for _, f := range registered {
		encode(family{f})
	}
	encode(m.topics.counters()...)
	if numbers, err := m.numbers(r.Context(), snapshot, schedules); err != nil {
		encode(redisUp(0))
	} else {
		encode(redisUp(1))
		encode(numbers.families(m.topics)...)
	}
}
