// Package web is the HTTP front: what all of its areas have in common, which are packages of their own
// below this one. The front is a client and an operator like others: what it knows and does, it
// reads from and does in Redis, so that it answers for all servers there are.
package web

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
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
	// Log is told of handlers that panic, and the like; nil: nobody is.
	Log *log.Logger
}

// User may use the front, with a password.
type User struct{ Name, Password string }

// Area is a part of the front.
type Area struct {
	// Handler serves it. What it gets was let in.
	Handler http.Handler
	// Patterns are those of http.ServeMux that are its own.
	Patterns []string
	// Refuse answers a request that is not let in, in the area's own way; nil: in plain text.
	Refuse func(w http.ResponseWriter, r *http.Request, status int, why string)
	// Pages has its answers come with what a browser is told of pages.
	Pages bool
	// Open has it serve everybody: it tells nothing that is worth a secret, but to who is Admitted.
	Open bool
	// Reads reports whether the request changes nothing, although its method does not say so;
	// nil: none does.
	Reads func(r *http.Request) bool
}

// Front serves HTTP. Make one with New.
type Front struct {
	server   *http.Server
	base     context.Context // of all requests: it knows the front
	stopping context.Context
	stop     context.CancelFunc
	detached sync.WaitGroup // the answers that Detach owes
	again    *returned      // the connections that go on after these
}

type frontKey struct{}

const (
	// headerTimeout, idleTimeout and maxHeader bound what a client can hold without asking.
	headerTimeout = 5 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 16 << 10
	// exchangeTimeout bounds the reading of a request; and twice that, all until its answer is written,
	// but for a Poll: so there is as much time for the answer to a request that came late.
	exchangeTimeout = 30 * time.Second
	// stopWait is how long Serve waits for the answers under way when it stops.
	stopWait = time.Second
)

// New makes a Front of the areas.
func New(o Options, areas ...Area) *Front {
	f := &Front{again: newReturned()}
	f.base = context.WithValue(context.Background(), frontKey{}, f)
	f.stopping, f.stop = context.WithCancel(context.Background())
	g := newGuard(o)
	mux := http.NewServeMux()
	for _, a := range areas {
		handler := g.protect(a)
		for _, pattern := range a.Patterns {
			mux.Handle(pattern, handler)
		}
	}
	f.server = &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       exchangeTimeout,
		WriteTimeout:      2 * exchangeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return f.base },
		ConnContext:       withConn,
		ErrorLog:          cmp.Or(o.Log, log.New(io.Discard, "", 0)),
	}
	return f
}

// ServeHTTP serves one request.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) { f.server.Handler.ServeHTTP(w, r) }

// Serve serves those who connect to the listener until ctx is done. Then it closes the listener,
// has waiting polls answered, and returns when all answers are written; after a second at most.
func (f *Front) Serve(ctx context.Context, l net.Listener) error {
	served := make(chan error, 1)
	go func() { served <- f.server.Serve(l) }()
	go f.server.Serve(f.again)
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	f.stop()
	ctx, cancel := context.WithTimeout(context.Background(), stopWait)
	defer cancel()
	err := f.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return f.server.Close()
	}
	answered := make(chan struct{})
	go func() {
		f.detached.Wait()
		close(answered)
	}()
	select {
	case <-answered:
	case <-ctx.Done():
	}
	return err
}
