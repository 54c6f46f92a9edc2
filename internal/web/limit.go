package web

import (
	"net"
	"sync"
)

// MaxConns is how many connections a limited listener has at a time: more than anybody needs who
// means well, and few enough to leave the process what it needs for Redis.
const MaxConns = 10000

// Limit has the listener accept no more than most connections at a time; others wait until one is closed.
func Limit(l net.Listener, most int) net.Listener {
	return &limited{Listener: l, slots: make(chan struct{}, most), closed: make(chan struct{})}
}

type limited struct {
	net.Listener
	slots  chan struct{} // one is in it for each connection
	closed chan struct{}
	once   sync.Once
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{Conn: c, release: sync.OnceFunc(func() { <-l.slots })}, nil
}

func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	release func()
}

func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// NetConn is the connection itself.
func (c *limitedConn) NetConn() net.Conn { return c.Conn }
