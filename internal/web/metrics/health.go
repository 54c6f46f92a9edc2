package metrics

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/web"
)

const (
	// readyTimeout bounds the answer of /readyz; a probe's own time is often 1 s. overdueTimeout is the time of the look
	// that it waits for, which says which partitions have not answered.
	readyTimeout, overdueTimeout = 900 * time.Millisecond, 700 * time.Millisecond
	// passSlack is by how much a pass may come later than the interval says: a batch may take
	// that long.
	passSlack = 10 * time.Second
)

// reason is why we are not ready, or what is not as it should be.
type reason struct {
	Reason string `json:"reason"`
	// Detail is only for those who are admitted.
	Detail string `json:"detail,omitempty"`
}

type readiness struct {
	Ready   bool     `json:"ready"`
	Reasons []reason `json:"reasons"`
	// Degraded is what is not as it should be although we are ready: all servers would say the same, and that none of them is ready would make it
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

// readiness says whether we are ready: Redis answers, of several partitions any, and this process's own server works.
func (m *Metrics) readiness(ctx context.Context) readiness {
	ready := readiness{Reasons: []reason{}}
	say := func(list *[]reason, why, format string, args ...any) {
		*list = append(*list, reason{why, fmt.Sprintf(format, args...)})
	}
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("no answer within %v", readyTimeout))
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
		say(&ready.Degraded, "overdue", "a job%s has been due for %v, more than ready_max_late, %v", ofPartition(late.Partition), late.For.Round(time.Millisecond), m.readyMaxLate)
	}
	if strays := m.inspector.Strays(ctx); len(strays) > 0 {
		say(&ready.Degraded, "stray", "%s", store.InWords(strays))
	}
	if allowed := m.interval + passSlack; m.now().Sub(time.UnixMilli(m.worked.Load())) > allowed {
		say(&ready.Reasons, "pass", "the server has had no success for more than %v", allowed)
	}
	ready.Ready = len(ready.Reasons) == 0
	return ready
}

// ofPartition says which one, where there are several.
func ofPartition(number int) string {
	if number == inspect.Unknown {
		return ""
	}
	return fmt.Sprint(" of partition ", number)
}

// works tells that this process's server has success.
func (m *Metrics) works() { m.worked.Store(m.now().UnixMilli()) }
