// Package web is the HTTP front: what all of its areas have in common, which are packages of their own
// below this one. The front is a client and an operator like others: what it knows and does, it
// reads from and does in Redis, so that it answers for all servers there are.
//
// A request that waits for a job is an ordinary handler that waits (see Wait): 26 KB each, most of it net/http's
// buffers and stacks. Hijacked connections would take 13 KB, but need a second implementation of HTTP's
// connections; a limit on waiting requests bounds the memory instead.
package web

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"time"
)

// Options of a Front.
type Options struct {
	// Token and Users are who may use the front: whoever shows the token, or is one of the
	// users. With neither, everybody.
	Token string
	Users []User
	// Hosts are names, beside localhost and the addresses, under which the front may be asked.
	Hosts []string
	// ReadOnly has it refuse whatever changes something.
	ReadOnly bool
	// TLS says that the listener encrypts.
	TLS bool
	// Limit is the listener's, or that of the one below; nil: there is none.
	Limit *Limited
	// RedisTimeout is how long a call on a silent Redis takes until it fails; 0: it is not known.
	RedisTimeout time.Duration
	// Log is told of handlers that panic, and the like; nil: nobody is.
	Log *log.Logger
	// Spare is told of what strangers cause, which may be much; nil: nobody is.
	Spare *Sparing
}

// User may use the front, with a password.
type User struct{ Name, Password string }

// Area is a part of the front.
type Area struct {
	// Handler serves it. What it gets was let in.
	Handler http.Handler
	// Patterns are the methods and paths that are its own (see route).
	Patterns []string
	// Refuse answers a request that is not let in, in the area's own way; nil: in plain text.
	Refuse func(w http.ResponseWriter, r *http.Request, status int, why string)
	// Pages has its answers come with what a browser is told of pages.
	Pages bool
	// Open has it serve everybody: it tells nothing that is worth a secret, but to who is Admitted.
	Open bool
	// Reads reports whether the request changes nothing; nil: its method says so (see Safe).
	Reads func(r *http.Request) bool
}

// Front serves HTTP. Make one with New.
type Front struct {
	options  Options
	server   *http.Server
	base     context.Context // of all requests: it knows the front
	stopping context.Context
	stop     context.CancelFunc
	counter  *counter
}

type frontKey struct{}

const (
	// headerTimeout, idleTimeout and maxHeader bound what a client can hold without asking.
	headerTimeout = 5 * time.Second
	idleTimeout   = 2 * time.Minute
	// maxHeader is 16 KiB less what net/http reads beyond it.
	maxHeader = 16<<10 - 4<<10
	// exchangeTimeout bounds the reading of a request; and twice that, all until its answer is written,
	// but for a Wait: so there is as much time for the answer to a request that came late.
	exchangeTimeout = 30 * time.Second
	// stopWait is how long Serve waits for the answers under way when it stops. On an idle machine 5,000 polls
	// take a third of a second. On a busy one they have stopMore beyond that, as long as some are
	// answered in each stopStep.
	stopWait = time.Second
	stopMore = 2 * time.Second
	stopStep = 100 * time.Millisecond
)

// New makes a Front of the areas.
func New(o Options, areas ...Area) *Front {
	o.Log = cmp.Or(o.Log, log.New(io.Discard, "", 0))
	o.Spare = cmp.Or(o.Spare, NewSparing(func(string) {}))
	f := &Front{options: o, counter: newCounter()}
	f.base = context.WithValue(context.Background(), frontKey{}, f)
	f.stopping, f.stop = context.WithCancel(context.Background())
	g := newGuard(f)
	all := &routes{}
	all.other = g.protect(Area{Handler: http.HandlerFunc(all.noRoute)})
	for _, a := range areas {
		handler := g.protect(a)
		for _, pattern := range a.Patterns {
			all.add(pattern, handler)
		}
	}
	f.server = &http.Server{
		Handler:           f.counter.count(all),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       exchangeTimeout,
		WriteTimeout:      2 * exchangeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return f.base },
		ConnContext:       withConn,
		ConnState:         rest,
		// Else net/http answers OPTIONS * itself, without the guard.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     log.New(complaints{f}, "", 0),
	}
	return f
}

// Encrypted reports whether the request came over HTTPS.
func Encrypted(r *http.Request) bool {
	return r.TLS != nil || frontOf(r.Context()).options.TLS
}

// frontOf is the front that serves the request of that context; else one that does nothing.
func frontOf(ctx context.Context) *Front {
	if front, ok := ctx.Value(frontKey{}).(*Front); ok {
		return front
	}
	return noFront
}

var noFront = &Front{counter: newCounter(), stopping: context.Background()}

// rest enters whether a connection rests.
func rest(conn net.Conn, state http.ConnState) {
	if c := below[*limitedConn](conn); c != nil && (state == http.StateIdle || state == http.StateActive) {
		c.rest(state == http.StateIdle)
	}
}

// complaints are what the server complains of, line by line.
type complaints struct{ *Front }

func (c complaints) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	if why, ok := strings.CutPrefix(text, "http: TLS handshake error from "); ok {
		c.counter.refuse(refusedHandshake)
		c.options.Spare.Say(refusedHandshake, "TLS handshake failed with "+why)
	} else {
		c.options.Log.Print(text)
	}
	return len(line), nil
}

// ServeHTTP serves one request.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) { f.server.Handler.ServeHTTP(w, r) }

// Serve serves those who connect to the listener until ctx is done. Then it closes the listener,
// has waiting polls answered, and returns when all answers are written; after 3 s at most.
func (f *Front) Serve(ctx context.Context, l net.Listener) error {
	served := make(chan error, 1)
	go func() { served <- f.server.Serve(plainListener{l}) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	// What is answered from now on says that its connection ends; Shutdown alone says so too late
	// for the answers that f.stop brings about.
	f.server.SetKeepAlivesEnabled(false)
	f.stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go f.losePatience(ctx, cancel)
	if err := f.server.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return f.server.Close()
}

// losePatience cancels ctx after stopWait; but while ever fewer requests are under way, up to stopMore later.
func (f *Front) losePatience(ctx context.Context, cancel context.CancelFunc) {
	defer cancel()
	for waited, before := time.Duration(0), int64(0); waited < stopWait+stopMore; waited += stopStep {
		serving := f.counter.serving.Load()
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
