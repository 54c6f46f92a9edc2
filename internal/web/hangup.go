package web

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// HungUp reports whether the client is known to have disconnected, so that a job is not handed to nobody.
// Call it before the answer is written: a client may disconnect as soon as it has read that.
//
// A client that closed only its own side looks the same as one that is gone, until something is written to it
// and its system rejects that. So HungUp sends the first bytes of the answer, or, under TLS, an interim
// response.
func HungUp(w http.ResponseWriter, r *http.Request) bool {
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	state, _ := stateOf(conn)
	switch {
	case state == unknown || r.ProtoMajor != 1:
		return clientOf(r).connected.Err() != nil
	case state == open: // under TLS the client may still have closed its side
		return false
	}
	if plain, ok := conn.(*plainConn); ok {
		plain.begin()
	} else if r.ProtoAtLeast(1, 1) { // HTTP/1.0 has no interim responses
		w.WriteHeader(http.StatusContinue)
	} else {
		return true
	}
	return !isRead(conn)
}

// connState is the state of a connection according to the system.
type connState int

const (
	unknown connState = iota
	open
	ended // closed by the client, at least on its side
	broken
)

// readTimeout is how long the client's system may take to acknowledge what was written or to reject it.
const readTimeout = 2 * time.Second

// isRead reports whether the client received everything that was written to an ended connection.
func isRead(conn net.Conn) bool {
	pause := 50 * time.Microsecond
	for began := time.Now(); time.Since(began) < readTimeout; time.Sleep(pause) {
		switch state, unread := stateOf(conn); {
		case state != ended:
			return false
		case !unread:
			return true
		}
		pause = min(2*pause, 20*time.Millisecond)
	}
	return false
}

// beginning is the start of every HTTP/1 answer.
const beginning = "HTTP/1."

// plainConn is a connection without TLS. The start of an answer can be written before the answer is known.
//
// net/http sets the read deadline several times per request, mostly while all data is already buffered.
// plainConn passes the deadline on to the system only when it reads.
type plainConn struct {
	net.Conn
	begun int // bytes of the beginning already written

	mu          sync.Mutex
	reading     bool
	wanted, set time.Time // the deadline wanted, and the one the system has
}

// SetReadDeadline applies to the current Read, or to the next one.
func (c *plainConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = t
	if !c.reading {
		return nil
	}
	return c.applyDeadline()
}

// SetDeadline implements net.Conn.
func (c *plainConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// applyDeadline passes the deadline on to the system; the caller holds mu.
func (c *plainConn) applyDeadline() error {
	if c.wanted == c.set {
		return nil
	}
	c.set = c.wanted
	return c.Conn.SetReadDeadline(c.set)
}

func (c *plainConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	c.reading = true
	err := c.applyDeadline()
	c.mu.Unlock()
	if err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	c.reading = false
	c.mu.Unlock()
	return n, err
}

// begin writes the next byte of the beginning.
func (c *plainConn) begin() {
	if c.begun < len(beginning) {
		c.Conn.Write([]byte{beginning[c.begun]})
		c.begun++
	}
}

func (c *plainConn) Write(p []byte) (int, error) {
	begun := min(c.begun, len(p))
	c.begun -= begun
	n, err := c.Conn.Write(p[begun:])
	return begun + n, err
}

// NetConn returns the underlying connection.
func (c *plainConn) NetConn() net.Conn { return c.Conn }

// plainListener wraps each connection without TLS in a plainConn.
type plainListener struct{ net.Listener }

func (l plainListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if _, encrypted := conn.(*tls.Conn); err != nil || encrypted {
		return conn, err
	}
	return &plainConn{Conn: conn}, nil
}

type connKey struct{}

// withConn stores the connection in the context of its requests.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}
