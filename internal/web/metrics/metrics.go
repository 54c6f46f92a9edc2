// Package metrics is what monitoring asks: /metrics for Prometheus, and the probes /healthz and
// /readyz.
//
// It tells two kinds of numbers. What is read from Redis when it is asked for is of all servers
// and programs together, and every front tells the same. What this process has counted is to be
// added to what others have.
package metrics

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzip"
	"github.com/mix-basic/delayer/internal/operator"
	"github.com/mix-basic/delayer/internal/web"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// Options of Metrics. The zero value works.
type Options struct {
	// Topics is how many topics have series of their own; the others share the label "other".
	// 0 means 1,000, less than 0 none.
	Topics int
	// Version is that of this program.
	Version string
	// Interval is that of this process's server. 0 means 1 s.
	Interval time.Duration
	// ReadyMaxLate is for how long a job may have been due, without being moved, while /readyz
	// says that all is well. 0 means that it doesn't look at that.
	ReadyMaxLate time.Duration
}

// Metrics are a server.Observer, and what it has observed. Make them with New.
type Metrics struct {
	counted
	registry *prometheus.Registry
	look     *look[numbers]

	interval     time.Duration
	readyMaxLate time.Duration
	now          func() time.Time // time.Now, but for tests
	worked       atomic.Int64     // when this process's server last had success, in Unix ms; see works
}

// New makes Metrics, with what the Operator sees.
func New(op *operator.Operator, o Options) *Metrics {
	m := &Metrics{
		counted:      newCounted(max(cmp.Or(o.Topics, defaultTopics), 0)),
		registry:     prometheus.NewRegistry(),
		look:         newLook((&reader{operator: op}).read),
		interval:     cmp.Or(max(o.Interval, 0), time.Second),
		readyMaxLate: o.ReadyMaxLate,
		now:          time.Now,
	}
	m.registry.MustRegister(m.counted.collectors()...)
	m.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		buildInfo(o.Version),
	)
	return m
}

func buildInfo(version string) prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "delayer_build_info",
		Help:        "Always 1; the labels say which program this is.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	})
	info.Set(1)
	return info
}

// Area is that of /metrics.
func (m *Metrics) Area() web.Area {
	// promhttp would compress at a level that takes three times as long, for nothing.
	all := promhttp.HandlerFor(m, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, DisableCompression: true})
	compress, err := gzhttp.NewWrapper(gzhttp.CompressionLevel(gzip.BestSpeed))
	if err != nil {
		panic(err) // the level is a constant
	}
	return web.Area{
		Handler:  compress(all),
		Patterns: []string{"GET /metrics"},
	}
}

// Gather is for prometheus.Gatherer: all that /metrics tells.
func (m *Metrics) Gather() ([]*dto.MetricFamily, error) {
	look := m.look.current(0) // while Redis answers, the rest is gathered
	all, err := m.registry.Gather()
	families := m.topics.counters()
	if numbers, err := look.wait(context.Background()); err != nil {
		families = append(families, redisUp(0))
	} else {
		families = append(append(families, redisUp(1)), numbers.families(m.topics)...)
	}
	for _, f := range families {
		if len(f.Metric) > 0 {
			all = append(all, f.MetricFamily)
		}
	}
	slices.SortFunc(all, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return all, err
}
