// Package metrics serves monitoring: /metrics for Prometheus, and the probes /healthz and /readyz.
//
// Its main type is Metrics. There are two kinds of metrics. Those read from Redis describe all servers and
// programs; every HTTP server reports the same values. Those counted by this process have to be summed over
// all processes.
//
// Invariants: however often it is scraped, Redis is read once a second at most; the number of series is
// bounded (see topics); counters never go back.
package metrics

import (
	"cmp"
	"net/http"
	"runtime"
	"strconv"
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
	// Topics is how many topics have their own series; the others share the label "other". 0 means 1,000, a
	// negative value none.
	Topics int
	// Version is this program's version.
	Version string
	// Interval is the interval of this process's server; 0 means 1 s.
	Interval time.Duration
	// ReadyMaxLate is how long a job may be overdue before /readyz reports it; 0 means any time.
	ReadyMaxLate time.Duration
}

// fresh is how long a reading of Redis is shared, so that Redis is read at most once a second.
const fresh = time.Second

// Metrics holds what this process counts; see Hooks. Create it with New.
type Metrics struct {
	*counted
	registry  *prometheus.Registry
	inspector *inspect.Inspector
	overdue   *inspect.Shared[inspect.Overdue]
	acked     steady

	interval     time.Duration
	readyMaxLate time.Duration
	now          func() time.Time // replaced by tests
	fresh        time.Duration    // replaced by tests
	worked       atomic.Int64     // last success of this process's server, in Unix ms; see works
}

// New returns Metrics that read Redis through the inspector.
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

// Area is the area of /metrics.
func (m *Metrics) Area() web.Area {
	compress, err := gzhttp.NewWrapper(gzhttp.CompressionLevel(gzip.BestSpeed)) // higher levels barely make the text smaller
	if err != nil {
		panic(err) // the level is a constant
	}
	return web.Area{Handler: compress(http.HandlerFunc(m.serve)), Patterns: []string{"GET /metrics"}}
}

// serve writes this process's counters while Redis is being read. With promhttp, which collects everything
// first, a scrape of 1,000 topics takes 2 ms longer.
func (m *Metrics) serve(w http.ResponseWriter, r *http.Request) {
	var soon *inspect.Reading[map[string]int]
	if asked := r.URL.Query().Get("due_soon"); asked == "1" {
		soon = m.inspector.DueSoon(m.fresh)
	} else if asked != "" {
		http.Error(w, "due_soon: want 1, or leave it out", http.StatusBadRequest)
		return
	}
	snapshot, schedules := m.inspector.Snapshot(m.fresh), m.inspector.RecentScheduleStates(m.fresh)
	format := expfmt.Negotiate(r.Header)
	w.Header().Set("Content-Type", string(format))
	encoder := expfmt.NewEncoder(w, format)
	encode := func(families ...family) {
		for _, f := range families {
			if len(f.Metric) > 0 {
				encoder.Encode(f.MetricFamily) // an error means that the client is gone
			}
		}
	}
	registered, _ := m.registry.Gather() // an error concerns one collector; the others are there
	for _, f := range registered {
		encode(family{f})
	}
	encode(m.topics.counters()...)
	if numbers, err := m.numbers(r.Context(), snapshot, schedules); err != nil {
		encode(redisUp(0))
	} else {
		encode(redisUp(1))
		encode(numbers.families(m.topics)...)
		if soon != nil {
			encode(m.topics.dueSoon(r.Context(), numbers.Topics, soon))
		}
	}
}

// Watch adds the HTTP server's metrics.
func (m *Metrics) Watch(server *web.Server) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("delayer_http_"+name, help+thisProcess, labels, nil)
	}
	requests := desc("requests_total", "Answered requests by route and HTTP status.", "route", "code")
	refused := desc("refused_total", "Refused requests and connections by reason.", "reason")
	waiting := desc("waiting", "Requests waiting for a job.")
	connections := desc("connections", "Open connections: authenticated ones have presented a token or password (or, where none is required, made a request); unauthenticated are the others.", "kind")
	m.registry.MustRegister(prometheus.CollectorFunc(func(all chan<- prometheus.Metric) {
		counts := server.Counts()
		tell := func(d *prometheus.Desc, kind prometheus.ValueType, n float64, label ...string) {
			all <- prometheus.MustNewConstMetric(d, kind, n, label...)
		}
		for of, n := range counts.Requests {
			tell(requests, prometheus.CounterValue, float64(n), of.Route, strconv.Itoa(of.Status))
		}
		for reason, n := range counts.Refused {
			tell(refused, prometheus.CounterValue, float64(n), reason)
		}
		tell(waiting, prometheus.GaugeValue, float64(counts.Waiting))
		tell(connections, prometheus.GaugeValue, float64(counts.Authenticated), "authenticated")
		tell(connections, prometheus.GaugeValue, float64(counts.Unauthenticated), "unauthenticated")
	}))
}
