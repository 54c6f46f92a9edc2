package redispool

import (
	"context"
	"net"
	"sync/atomic"
	"time"
)

// patientConn is a connection whose deadlines bound silence, not size: they
// begin anew with every piece that comes or goes. So an answer of many megabytes
// over a slow link arrives, and a Redis that hangs in the midst of one is found
// out all the same.
type patientConn struct {
	net.Conn
	read, write timeout
}

// writePiece is how much is written under one deadline.
const writePiece = 64 << 10

func (d Dialer) dialPatient(ctx context.Context, network, addr string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: d.ConnectTimeout, KeepAlive: 5 * time.Minute}
	conn, err := dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &patientConn{Conn: conn}, nil
}

func (c *patientConn) SetReadDeadline(t time.Time) error {
	c.read.set(t)
	return c.Conn.SetReadDeadline(t)
}

func (c *patientConn) SetWriteDeadline(t time.Time) error {
	c.write.set(t)
	return c.Conn.SetWriteDeadline(t)
}

func (c *patientConn) SetDeadline(t time.Time) error {
	c.read.set(t)
	c.write.set(t)
	return c.Conn.SetDeadline(t)
}

func (c *patientConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if d := c.read.again(); n > 0 && d > 0 {
		c.Conn.SetReadDeadline(time.Now().Add(d))
	}
	return n, err
}

func (c *patientConn) Write(b []byte) (written int, err error) {
	for len(b) > writePiece && err == nil {
		var n int
		n, err = c.Conn.Write(b[:writePiece])
		written, b = written+n, b[n:]
		if d := c.write.again(); n > 0 && d > 0 {
			c.Conn.SetWriteDeadline(time.Now().Add(d))
		}
	}
	if err != nil {
		return written, err
	}
	n, err := c.Conn.Write(b)
	return written + n, err
}

// timeout is how long a deadline was away when it was set; 0 if there is none.
type timeout struct{ length atomic.Int64 }

func (t *timeout) set(deadline time.Time) {
	if deadline.IsZero() {
		t.length.Store(0)
	} else {
		t.length.Store(int64(max(time.Until(deadline), 0)))
	}
}

func (t *timeout) again() time.Duration { return time.Duration(t.length.Load()) }
