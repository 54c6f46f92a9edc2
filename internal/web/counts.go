package web

import (
	"cmp"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
)

// Counts are the server's totals since it started.
type Counts struct {
	// Requests counts answered requests.
	Requests map[Answered]uint64
	// Refused counts refused connections and requests by reason.
	Refused map[string]uint64
	// Waiting is the number of requests that are waiting for a job.
	Waiting int
	// Authenticated and Unauthenticated count the open connections: on the former a token or password was
	// presented (or, where none is required, a request was made). Both are 0 without a Limit.
	Authenticated, Unauthenticated int
}

// Answered is what requests are counted by: route and response status.
type Answered struct {
	Route  string
	Status int
}

// Reasons for refusing a request or connection.
const (
	refusedHandshake  = "handshake"   // TLS handshake failed
	refusedConnection = "connections" // closed to make room, or too many connections
	refusedHost       = "host"
	refusedNoSecret   = "no_secret"
	refusedSecret     = "wrong_secret"
	refusedOrigin     = "origin"
	refusedReadOnly   = "read_only"
)

var reasons = []string{refusedHandshake, refusedConnection, refusedHost, refusedNoSecret, refusedSecret, refusedOrigin, refusedReadOnly}

// counter holds a server's totals.
type counter struct {
	waiting, serving atomic.Int64 // requests waiting for a job; requests not yet answered

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

// Counts returns the totals so far.
func (s *Server) Counts() Counts {
	s.counter.mu.Lock()
	all := Counts{Requests: maps.Clone(s.counter.requests), Refused: maps.Clone(s.counter.refused), Waiting: int(s.counter.waiting.Load())}
	s.counter.mu.Unlock()
	if l := s.options.Limit; l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		all.Authenticated, all.Unauthenticated = l.authenticated, l.pending
		all.Refused[refusedConnection] += l.displaced
	}
	return all
}

// count wraps the handler and counts its answers.
func (c *counter) count(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.serving.Add(1)
		counted := &countedWriter{ResponseWriter: w}
		status := http.StatusInternalServerError // stays this if the handler panics
		defer func() {
			c.answer(counted.routeOf(r), status)
			c.serving.Add(-1)
		}()
		handler.ServeHTTP(counted, r)
		status = max(counted.status, http.StatusOK)
	})
}

// countedWriter records the status of the answer.
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

// Unwrap implements the interface that http.ResponseController looks for.
func (w *countedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// routeOf returns the route named by the area, else the request's pattern.
func (w *countedWriter) routeOf(r *http.Request) string {
	return cmp.Or(w.route, r.Pattern, "other")
}

// Route names the request's route for areas whose patterns are too broad. Use a small set of names: each
// becomes a metric label.
func Route(w http.ResponseWriter, name string) {
	if counted, ok := w.(*countedWriter); ok {
		counted.route = name
	}
}
