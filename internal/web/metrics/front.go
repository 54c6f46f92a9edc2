package metrics

import (
	"strconv"

	"github.com/mix-basic/delayer/internal/web"
	"github.com/prometheus/client_golang/prometheus"
)

// Watch has the metrics tell of the front, too.
func (m *Metrics) Watch(front *web.Front) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("delayer_http_"+name, help+thisProcess, labels, nil)
	}
	requests := desc("requests_total", "Requests that were answered, by route and HTTP's status.", "route", "code")
	refused := desc("refused_total", "Requests and connections that were not let in, by the reason.", "reason")
	waiting := desc("waiting", "Requests that wait for a job.")
	connections := desc("connections", "Open connections: authenticated ones have presented a token or password (or, where none is required, made a request); unauthenticated are the others.", "kind")
	m.registry.MustRegister(prometheus.CollectorFunc(func(all chan<- prometheus.Metric) {
		counts := front.Counts()
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
		tell(connections, prometheus.GaugeValue, float64(counts.Known), "authenticated")
		tell(connections, prometheus.GaugeValue, float64(counts.Strangers), "unauthenticated")
	}))
}
