package web

import (
	"net"
	"sync"
)

// returned is a listener for connections that are there already.
type returned struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newReturned() *returned {
	return &returned{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// give has the connection served, or closes it when nothing is served any more.
func (l *returned) give(c net.Conn) {
	select {
	case l.conns <- c:
	case <-l.closed:
		c.Close()
	}
}

func (l *returned) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *returned) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *returned) Addr() net.Addr { return &net.TCPAddr{} }

// readAhead is a connection of which some bytes were read already.
type readAhead struct {
	net.Conn
	ahead []byte
}

func (c *readAhead) Read(p []byte) (int, error) {
	if len(c.ahead) > 0 {
		n := copy(p, c.ahead)
		c.ahead = c.ahead[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// NetConn is the connection itself.
func (c *readAhead) NetConn() net.Conn { return c.Conn }
