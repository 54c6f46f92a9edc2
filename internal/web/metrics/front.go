package metrics

import (
	"strconv"

	"github.com/mix-basic/delayer/internal/web"
	"github.com/prometheus/client_golang/prometheus"
)

// Watch has the metrics tell of the front, too.
func (m *Metrics) Watch(front *web.Front) { m.prometheus.MustRegister(watched{front}) }

// watched tells what a front has counted.
type watched struct{ front *web.Front }

var (
	httpRequests    = prometheus.NewDesc("delayer_http_requests_total", "Requests that were answered, by route and HTTP's status."+thisProcess, []string{"route", "code"}, nil)
	httpRefused     = prometheus.NewDesc("delayer_http_refused_total", "Requests and connections that were not let in, by the reason."+thisProcess, []string{"reason"}, nil)
	httpWaiting     = prometheus.NewDesc("delayer_http_waiting", "Requests that wait for a job."+thisProcess, nil, nil)
	httpConnections = prometheus.NewDesc("delayer_http_connections", "Open connections: known are those on which a secret was shown, or where none is needed a request was made; stranger are the others."+thisProcess, []string{"kind"}, nil)
)

// Describe tells which metrics there are.
func (watched) Describe(all chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{httpRequests, httpRefused, httpWaiting, httpConnections} {
		all <- d
	}
}

// Collect tells what they are.
func (w watched) Collect(all chan<- prometheus.Metric) {
	counts := w.front.Counts()
	gauge := func(d *prometheus.Desc, n int, label ...string) {
		all <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), label...)
	}
	for of, n := range counts.Requests {
		all <- prometheus.MustNewConstMetric(httpRequests, prometheus.CounterValue, float64(n), of.Route, strconv.Itoa(of.Status))
	}
	for reason, n := range counts.Refused {
		all <- prometheus.MustNewConstMetric(httpRefused, prometheus.CounterValue, float64(n), reason)
	}
	gauge(httpWaiting, counts.Waiting)
	gauge(httpConnections, counts.Known, "known")
	gauge(httpConnections, counts.Strangers, "stranger")
}
