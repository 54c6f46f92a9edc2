package metrics

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/web"
)

const (
	// readyTimeout bounds the answer of /readyz; probes often allow 1 s. overdueTimeout bounds the reading of
	// Redis within it, so that the answer can name the partitions that did not reply.
	readyTimeout, overdueTimeout = 900 * time.Millisecond, 700 * time.Millisecond
	// passSlack is how much later than the interval a pass may come; a batch may take that long.
	passSlack = 10 * time.Second
)

// reason is why the server is not ready, or a problem that does not make it unready.
type reason struct {
	Reason string `json:"reason"`
	// Detail is shown to admitted clients only.
	Detail string `json:"detail,omitempty"`
}

type readiness struct {
	Ready   bool     `json:"ready"`
	Reasons []reason `json:"reasons"`
	// Degraded lists problems that all servers share: if they made every server unready, things would get
	// worse.
	Degraded []reason `json:"degraded,omitempty"`
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
	ready := m.readiness(r.Context())
	if !web.Admitted(r) {
		for _, reasons := range [][]reason{ready.Reasons, ready.Degraded} {
			for i := range reasons {
				reasons[i].Detail = ""
			}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if !ready.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	json.NewEncoder(w).Encode(ready)
}

// readiness decides: Redis must reply (any partition, if there are several) and this process's own server
// must work.
func (m *Metrics) readiness(ctx context.Context) readiness {
	ready := readiness{Reasons: []reason{}}
	say := func(list *[]reason, why, format string, args ...any) {
		*list = append(*list, reason{why, fmt.Sprintf(format, args...)})
	}
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("no response within %v", readyTimeout))
	defer cancel()
	late, err := m.overdue.Current(m.fresh).Wait(ctx)
	if err != nil {
		say(&ready.Reasons, "redis", "%v", err)
	}
	if late.Broken != nil {
		say(&ready.Degraded, "redis", "%v", late.Broken)
	}
	switch {
	case err != nil, m.readyMaxLate <= 0:
	case late.For < 0:
		say(&ready.Degraded, "overdue", "it can't be read for how long jobs%s have been due", ofPartition(late.Partition))
	case late.For > m.readyMaxLate:
		say(&ready.Degraded, "overdue", "a job%s has been due for %v, more than ready_max_late, %v", ofPartition(late.Partition), duration.Format(late.For.Round(time.Millisecond)), duration.Format(m.readyMaxLate))
	}
	if allowed := m.interval + passSlack; m.now().Sub(time.UnixMilli(m.worked.Load())) > allowed {
		say(&ready.Reasons, "pass", "the server has had no success for more than %v", allowed)
	}
	ready.Ready = len(ready.Reasons) == 0
	return ready
}

// ofPartition names the partition if there are several.
func ofPartition(number int) string {
	if number == inspect.Unknown {
		return ""
	}
	return fmt.Sprint(" of partition ", number)
}

// works records a success of this process's server.
func (m *Metrics) works() { m.worked.Store(m.now().UnixMilli()) }
