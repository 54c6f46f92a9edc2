package web

import (
	"context"
	"net"
	"net/http"
)

// HungUp reports whether the client is known to have hung up, so that an answer which is of worth is
// not given to nobody. There is no such question once an answer is written: a client that has read
// it may hang up at once.
//
// A client that has closed its own side of the connection only, and reads on, has not hung up. To know
// that, the request must be detached; else it is taken for one that has.
func HungUp(r *http.Request) bool {
	if r.Context().Err() != nil {
		return true
	}
	switch c := r.Context().Value(connKey{}).(type) {
	case *detached:
		return c.hungUp()
	case net.Conn:
		return isClosed(c)
	}
	return false
}

type connKey struct{}

// withConn is the context of a connection's requests.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}
