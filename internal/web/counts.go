package web

import (
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
	requests sync.Map // by Answered, of *atomic.Uint64
	refused  map[string]*atomic.Uint64
	waiting  atomic.Int64
	serving  atomic.Int64 // requests that are not answered yet
}

func newCounter() *counter {
	c := &counter{refused: map[string]*atomic.Uint64{}}
	for _, reason := range reasons {
		c.refused[reason] = &atomic.Uint64{}
	}
	return c
}

func (c *counter) answered(route string, status int) {
	key := Answered{route, status}
	n, ok := c.requests.Load(key)
	if !ok {
		n, _ = c.requests.LoadOrStore(key, &atomic.Uint64{})
	}
	n.(*atomic.Uint64).Add(1)
}

// Counts are what the front has counted until now.
func (f *Front) Counts() Counts {
	all := Counts{Requests: map[Answered]uint64{}, Refused: map[string]uint64{}, Waiting: int(f.counter.waiting.Load())}
	f.counter.requests.Range(func(key, n any) bool {
		all.Requests[key.(Answered)] = n.(*atomic.Uint64).Load()
		return true
	})
	for reason, n := range f.counter.refused {
		all.Refused[reason] = n.Load()
	}
	if f.limit != nil {
		all.Known, all.Strangers = f.limit.Conns()
		all.Refused[refusedStranger] += f.limit.Displaced()
	}
	return all
}

// count has the handler's answers counted.
func (c *counter) count(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.serving.Add(1)
		defer c.serving.Add(-1)
		counted := &countedWriter{ResponseWriter: w, counter: c}
		defer func() {
			if p := recover(); p != nil {
				counted.status = http.StatusInternalServerError
				counted.end(r)
				panic(p)
			}
			counted.end(r)
		}()
		handler.ServeHTTP(counted, r)
	})
}

// countedWriter notes what is answered.
type countedWriter struct {
	http.ResponseWriter
	counter *counter
	route   string
	status  int
}

func (w *countedWriter) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *countedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *countedWriter) end(r *http.Request) {
	w.counter.answered(w.routeOf(r), max(w.status, http.StatusOK))
}

// routeOf is that which the area has named, or else the pattern of the request.
func (w *countedWriter) routeOf(r *http.Request) string {
	switch {
	case w.route != "":
		return w.route
	case r.Pattern == "":
		return "other"
	}
	_, path, found := strings.Cut(r.Pattern, " ")
	if !found {
		path = r.Pattern
	}
	return strings.TrimSuffix(path, "{$}")
}

// Route names what the request is for, which is one of not too many, where the area's patterns do not.
func Route(w http.ResponseWriter, name string) {
	if counted, ok := w.(*countedWriter); ok {
		counted.route = name
	}
}
