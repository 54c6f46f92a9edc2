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

// HungUp reports whether the client is known to have hung up, so that an answer of worth is not given to
// nobody. Ask before the answer is written: a client that has read it may hang up at once.
//
// A client that has closed only its own side of the connection waits for the answer. It looks just like one
// that is gone until something is written, which the system of the latter refuses: so the answer is begun,
// or, where TLS is in the way, an interim one sent.
func HungUp(w http.ResponseWriter, r *http.Request) bool {
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	state, _ := stateOf(conn)
	switch {
	case state == unknown || r.ProtoMajor != 1:
		return clientOf(r).connected.Err() != nil
	case state == open: // of TLS the client's side may have ended
		return false
	}
	if plain, ok := conn.(*plainConn); ok {
		plain.begin()
	} else if r.ProtoAtLeast(1, 1) { // others know no interim answers
		w.WriteHeader(http.StatusContinue)
	} else {
		return true
	}
	return !isRead(conn)
}

// connState is what the system knows of a connection.
type connState int

const (
	unknown connState = iota
	open
	ended // the client has closed it, or its side of it
	broken
)

// readTimeout is how long the client's system may take to say that it has got what was written, or that
// nobody reads it any more.
const readTimeout = 2 * time.Second

// isRead reports whether the client has got all that was written to an ended connection.
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

// beginning is what all answers of HTTP/1 begin with.
const beginning = "HTTP/1."

// plainConn is a connection without TLS, on which an answer can be begun before it is known.
//
// net/http sets the deadline of its reads several times a request, most of them while all of that is in its buffer: so the
// system's is set only for a Read.
type plainConn struct {
	net.Conn
	begun int // how much of the beginning is written

	mu          sync.Mutex
	reading     bool
	wanted, set time.Time // the deadline of a Read
}

// SetReadDeadline sets the deadline of the Read under way, or of the next one.
func (c *plainConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = t
	if !c.reading {
		return nil
	}
	return c.applyDeadline()
}

// SetDeadline is SetReadDeadline and SetWriteDeadline.
func (c *plainConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// applyDeadline sets the system's deadline; mu must be held.
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

// NetConn is the connection itself.
func (c *plainConn) NetConn() net.Conn { return c.Conn }

// plainListener makes a plainConn of each connection without TLS.
type plainListener struct{ net.Listener }

func (l plainListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if _, encrypted := conn.(*tls.Conn); err != nil || encrypted {
		return conn, err
	}
	return &plainConn{Conn: conn}, nil
}

type connKey struct{}

// withConn is the context of a connection's requests.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}
