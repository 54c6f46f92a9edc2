package metrics

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/mix-basic/delayer/internal/operator"
	"github.com/mix-basic/delayer/internal/web"
)

const (
	// readyTimeout bounds the answer of /readyz; a probe's own time is often 1 s. overdueTimeout is the time of the look
	// that it waits for, which says which partitions have not answered.
	readyTimeout, overdueTimeout = 900 * time.Millisecond, 700 * time.Millisecond
	// readyFresh is for how long a look at Redis serves those who ask whether we are ready:
	// anybody may, so asking must cost Redis nothing.
	readyFresh = time.Second
	// passSlack is by how much a pass may come later than the interval says: a batch may take
	// that long.
	passSlack = 10 * time.Second
)

// reason is why we are not ready.
type reason struct {
	Reason string `json:"reason"`
	// Detail is only for those who are admitted.
	Detail string `json:"detail,omitempty"`
}

type readiness struct {
	Ready   bool     `json:"ready"`
	Reasons []reason `json:"reasons"`
}

// Health is the area of /healthz and /readyz, for probes.
func (m *Metrics) Health() web.Area {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Write([]byte("ok\n"))
	})
	mux.HandleFunc("GET /readyz", m.serveReady)
	return web.Area{Handler: mux, Patterns: []string{"GET /healthz", "GET /readyz"}, Open: true}
}

func (m *Metrics) serveReady(w http.ResponseWriter, r *http.Request) {
	reasons := m.notReady(r.Context())
	if !web.Admitted(r) {
		for i := range reasons {
			reasons[i].Detail = ""
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if len(reasons) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	json.NewEncoder(w).Encode(readiness{len(reasons) == 0, reasons})
}

// notReady are the reasons why we are not.
func (m *Metrics) notReady(ctx context.Context) []reason {
	reasons := []reason{}
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, errNoAnswer{readyTimeout})
	defer cancel()
	late, err := m.overdue.current(readyFresh).wait(ctx)
	not := func(why, format string, args ...any) {
		reasons = append(reasons, reason{why, fmt.Sprintf(format, args...)})
	}
	switch {
	case err != nil:
		not("redis", "%v", err)
	case m.readyMaxLate <= 0:
	case late.For < 0:
		not("overdue", "it can't be read for how long jobs%s have been due", ofPartition(late.Partition))
	case late.For > m.readyMaxLate:
		not("overdue", "a job%s has been due for %v, more than ready_max_late, %v", ofPartition(late.Partition), late.For.Round(time.Millisecond), m.readyMaxLate)
	}
	if allowed := m.interval + passSlack; m.now().Sub(time.UnixMilli(m.worked.Load())) > allowed {
		not("pass", "the server has had no success for more than %v", allowed)
	}
	return reasons
}

// ofPartition says which one, where there are several.
func ofPartition(number int) string {
	if number == operator.Unknown {
		return ""
	}
	return fmt.Sprint(" of partition ", number)
}

// works tells that this process's server has success.
func (m *Metrics) works() { m.worked.Store(m.now().UnixMilli()) }
