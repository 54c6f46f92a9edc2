package metrics

import (
	"strconv"

	"github.com/mix-basic/delayer/internal/web"
	"github.com/prometheus/client_golang/prometheus"
)

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
