package metrics

import (
	"sync"

	"github.com/mix-basic/delayer/server"
	"github.com/prometheus/client_golang/prometheus"
)

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
