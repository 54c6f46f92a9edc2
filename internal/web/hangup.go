package web

import (
	"context"
	"net"
	"net/http"
)

// HungUp reports whether the client is known to have hung up. The request's context tells of it a
// little later than the system knows, which is asked here: so that an answer which is of worth is
// not given to nobody. There is no such question once an answer is written: a client that has read
// it may hang up at once.
func HungUp(r *http.Request) bool {
	if r.Context().Err() != nil {
		return true
	}
	conn, ok := r.Context().Value(connKey{}).(net.Conn)
	return ok && isClosed(conn)
}

type connKey struct{}

// withConn is the context of a connection's requests.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}
