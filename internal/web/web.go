// Package web is the HTTP server: listener limits, authentication, time limits, counters and shutdown. The
// areas it serves are packages below this one. It reads and changes everything in Redis, like any client, so
// any server answers for all of them.
//
// The main type is Server. Invariants: a request that is not admitted reaches no handler but that of an open
// area; an unauthenticated client cannot use up the connection limit (see Limited); a request is served to
// the end even if its client disconnects, except long polls (see Wait): no job is handed to a client that is
// known to be gone.
//
// Rejected: hijacking connections of long polls. A waiting handler takes 26 KB, a hijacked connection 13 KB,
// but needs a second implementation of HTTP. A limit on waiting requests bounds the memory instead.
package web

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Options of a Server.
type Options struct {
	// Token and Users are the accepted credentials: either suffices. With neither, everybody is admitted.
	Token string
	Users []User
	// Hosts are names by which the server is reached, besides localhost and IP addresses.
	Hosts []string
	// ReadOnly refuses requests that change something.
	ReadOnly bool
	// TLS tells that the listener encrypts.
	TLS bool
	// Limit is the Limited listener that Serve gets, directly or wrapped; may be nil.
	Limit *Limited
	// RedisTimeout is how long a call takes to fail when Redis hangs; 0 if unknown.
	RedisTimeout time.Duration
	// Log receives handler panics and the like; may be nil.
	Log *log.Logger
	// Spare receives complaints that unauthenticated clients can cause in large numbers; may be nil.
	Spare *Sparing
}

// User has access with a password.
type User struct{ Name, Password string }

// Area is a part of the server with its own handler and paths.
type Area struct {
	// Handler serves admitted requests.
	Handler http.Handler
	// Patterns are the area's paths, each of one step: "/metrics", or "/v1/" for everything below it. "GET /metrics" takes GET and HEAD only.
	Patterns []string
	// Refuse answers a request that is not admitted; nil for plain text.
	Refuse func(w http.ResponseWriter, r *http.Request, status int, why string)
	// Pages adds the headers for HTML pages to its answers.
	Pages bool
	// Open admits everybody. Such an area reveals secrets only to Admitted clients.
	Open bool
	// Reads reports whether a request changes nothing; nil decides by its method (see Safe).
	Reads func(r *http.Request) bool
}

// Server serves the areas over HTTP. Create it with New.
type Server struct {
	guard    *guard
	options  Options
	http     *http.Server
	base     context.Context // parent of all requests' contexts; holds the server
	stopping context.Context
	stop     context.CancelFunc
	counter  *counter
}

// serverKey and connKey have a request's server and connection in its context.
type (
	serverKey struct{}
	connKey   struct{}
)

const (
	// headerTimeout, idleTimeout and maxHeader bound what a client can hold without sending a request.
	headerTimeout = 5 * time.Second
	idleTimeout   = 2 * time.Minute
	// maxHeader is 16 KiB less what net/http adds.
	maxHeader = 16<<10 - 4<<10
	// exchangeTimeout bounds reading a request; twice that bounds the whole exchange, except a Wait, so that
	// a slowly sent request still has time for its answer.
	exchangeTimeout = 30 * time.Second
	// stopWait is how long Serve waits for pending answers when it stops. An idle machine answers 5,000 polls
	// in a third of a second. A busy one gets up to stopMore longer as long as some are answered in each
	// stopStep.
	stopWait = time.Second
	stopMore = 2 * time.Second
	stopStep = 100 * time.Millisecond
)

// SetCredentials replaces Options.Token and Options.Users while the Server runs.
func (s *Server) SetCredentials(token string, users []User) {
	s.guard.known.Store(newCredentials(token, users))
}

// New creates a Server for the areas.
func New(o Options, areas ...Area) *Server {
	o.Log = cmp.Or(o.Log, log.New(io.Discard, "", 0))
	o.Spare = cmp.Or(o.Spare, NewSparing(func(string) {}))
	s := &Server{options: o, counter: newCounter()}
	s.base = context.WithValue(context.Background(), serverKey{}, s)
	s.stopping, s.stop = context.WithCancel(context.Background())
	g := &guard{Server: s, origins: http.NewCrossOriginProtection()}
	s.guard = g
	s.SetCredentials(o.Token, o.Users)
	all := &routes{known: map[string]map[string]http.Handler{}}
	all.other = g.protect(Area{Handler: http.HandlerFunc(all.noRoute)})
	for _, a := range areas {
		handler := g.protect(a)
		for _, pattern := range a.Patterns {
			all.add(pattern, handler)
		}
	}
	s.http = &http.Server{
		Handler:           s.counter.count(all),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       exchangeTimeout,
		WriteTimeout:      2 * exchangeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return s.base },
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ConnState:         setIdle,
		// Otherwise net/http would answer OPTIONS * itself, without the guard.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     log.New(complaints{s}, "", 0),
	}
	return s
}

// Encrypted reports whether the request came over HTTPS.
func Encrypted(r *http.Request) bool {
	return r.TLS != nil || serverOf(r.Context()).options.TLS
}

// serverOf returns the server that handles the request of ctx, or a dummy.
func serverOf(ctx context.Context) *Server {
	if server, ok := ctx.Value(serverKey{}).(*Server); ok {
		return server
	}
	return noServer
}

var noServer = &Server{counter: newCounter(), stopping: context.Background()}

// setIdle records whether a connection is idle.
func setIdle(conn net.Conn, state http.ConnState) {
	if c := below[*limitedConn](conn); c != nil && (state == http.StateIdle || state == http.StateActive) {
		c.setIdle(state == http.StateIdle)
	}
}

// complaints receives net/http's error log, line by line.
type complaints struct{ *Server }

func (c complaints) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	if why, ok := strings.CutPrefix(text, "http: TLS handshake error from "); ok {
		c.counter.refuse(refusedHandshake)
		c.options.Spare.Say(refusedHandshake, "TLS handshake failed with "+why)
	} else if strings.HasPrefix(text, "http: Accept error: ") { // repeated up to 200 times a second
		c.options.Spare.Say("accept", strings.TrimPrefix(text, "http: "))
	} else {
		c.options.Log.Print(text)
	}
	return len(line), nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.http.Handler.ServeHTTP(w, r) }

// Serve accepts connections until ctx is done. Then it closes the listener, answers waiting polls, and
// returns when all answers are written, after 3 s at most.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	// Answers sent from now on tell the client that the connection closes. Shutdown alone would be too late
	// for the answers that s.stop triggers.
	s.http.SetKeepAlivesEnabled(false)
	s.stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go s.losePatience(ctx, cancel)
	if err := s.http.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return s.http.Close()
}

// losePatience cancels ctx after stopWait, or up to stopMore later while the number of open requests keeps
// falling.
func (s *Server) losePatience(ctx context.Context, cancel context.CancelFunc) {
	defer cancel()
	for waited, before := time.Duration(0), int64(0); waited < stopWait+stopMore; waited += stopStep {
		serving := s.counter.serving.Load()
		if waited >= stopWait && serving >= before {
			return
		}
		before = serving
		select {
		case <-time.After(stopStep):
		case <-ctx.Done():
			return
		}
	}
}

// routes finds the handler of a request by the first step of its path, as it was sent. http.ServeMux would redirect paths that contain
// "." or "..", which may be job IDs, and would answer unknown paths and methods itself, without the guard.
type routes struct {
	known map[string]map[string]http.Handler // by first step, then by method; "" stands for any method
	other http.Handler                       // handles requests without a route
}

// add adds a pattern of an Area.
func (rs *routes) add(pattern string, handler http.Handler) {
	method, path, ok := strings.Cut(pattern, " ")
	if !ok {
		method, path = "", pattern
	}
	if rs.known[path] == nil {
		rs.known[path] = map[string]http.Handler{}
	}
	rs.known[path][method] = handler
	if method == http.MethodGet {
		rs.known[path][http.MethodHead] = handler
	}
}

// firstStep returns "/" and the path's first name, and another "/" if the path goes on.
func firstStep(path string) string {
	name, _, below := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if below {
		name += "/"
	}
	return "/" + name
}

func (rs *routes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	step := firstStep(r.URL.Path)
	handler, found := rs.known[step][r.Method]
	if !found {
		handler, found = rs.known[step][""]
	}
	if !found {
		rs.other.ServeHTTP(w, r)
		return
	}
	r.Pattern = step
	handler.ServeHTTP(w, r)
}

// noRoute answers 404 for an unknown path, and 405 for a known path with another method.
func (rs *routes) noRoute(w http.ResponseWriter, r *http.Request) {
	methods := slices.Sorted(maps.Keys(rs.known[firstStep(r.URL.Path)]))
	if methods == nil {
		http.Error(w, "there is no such path", http.StatusNotFound)
		return
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	http.Error(w, "method not allowed: want "+w.Header().Get("Allow"), http.StatusMethodNotAllowed)
}
