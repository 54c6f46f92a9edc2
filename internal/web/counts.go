package web

import (
	"cmp"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

// Counts are what a front has counted.
type Counts struct {
	// Requests that were answered.
	Requests map[Answered]uint64
	// Refused connections and requests, by the reason.
	Refused map[string]uint64
	// Waiting requests: for a job.
	Waiting int
	// Known and Strangers are open connections: of those who have shown a secret, and of others. They
	// are 0 without a Limit.
	Known, Strangers int
}

// Answered is what requests have in common: their route, and the status of their answers.
type Answered struct {
	Route  string
	Status int
}

// The reasons for which somebody is refused.
const (
	refusedHandshake = "handshake"   // of TLS
	refusedStranger  = "connections" // who made room for others, or for whom there was none
	refusedHost      = "host"
	refusedNoSecret  = "no_secret"
	refusedSecret    = "wrong_secret"
	refusedOrigin    = "origin"
	refusedReadOnly  = "read_only"
)

var reasons = []string{refusedHandshake, refusedStranger, refusedHost, refusedNoSecret, refusedSecret, refusedOrigin, refusedReadOnly}

// counter counts for a front.
type counter struct {
	waiting, serving atomic.Int64 // requests: for a job, and all that are not answered yet

	mu       sync.Mutex
	requests map[Answered]uint64
	refused  map[string]uint64
}

func newCounter() *counter {
	c := &counter{requests: map[Answered]uint64{}, refused: map[string]uint64{}}
	for _, reason := range reasons {
		c.refused[reason] = 0
	}
	return c
}

func (c *counter) answer(route string, status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests[Answered{route, status}]++
}

func (c *counter) refuse(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused[reason]++
}

// Counts are what the front has counted until now.
func (f *Front) Counts() Counts {
	f.counter.mu.Lock()
	all := Counts{Requests: maps.Clone(f.counter.requests), Refused: maps.Clone(f.counter.refused), Waiting: int(f.counter.waiting.Load())}
	f.counter.mu.Unlock()
	if l := f.options.Limit; l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		all.Known, all.Strangers = l.known, l.waiting
		all.Refused[refusedStranger] += l.displaced
	}
	return all
}

// count has the handler's answers counted.
func (c *counter) count(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.serving.Add(1)
		counted := &countedWriter{ResponseWriter: w}
		status := http.StatusInternalServerError // if the handler panics
		defer func() {
			c.answer(counted.routeOf(r), status)
			c.serving.Add(-1)
		}()
		handler.ServeHTTP(counted, r)
		status = max(counted.status, http.StatusOK)
	})
}

// countedWriter notes what is answered.
type countedWriter struct {
	http.ResponseWriter
	route  string
	status int
}

func (w *countedWriter) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *countedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// routeOf is that which the area has named, or else the pattern of the request.
func (w *countedWriter) routeOf(r *http.Request) string {
	path := r.Pattern[strings.Index(r.Pattern, " ")+1:]
	return cmp.Or(w.route, strings.TrimSuffix(path, "{$}"), "other")
}

// Route names what the request is for, which is one of not too many, where the area's patterns do not.
func Route(w http.ResponseWriter, name string) {
	if counted, ok := w.(*countedWriter); ok {
		counted.route = name
	}
}
