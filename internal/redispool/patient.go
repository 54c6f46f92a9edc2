package redispool

import (
	"context"
	"net"
	"slices"
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
	came        atomic.Bool // a piece, since the deadline was set
}

// writePiece is how much is written under one deadline.
const writePiece = 64 << 10

func (d Dialer) dialPatient(ctx context.Context, network, addr string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: d.ConnectTimeout, KeepAlive: 5 * time.Minute}
	conn, err := dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &patientConn{Conn: d.Locator.Guard(addr, conn)}, nil
}

func (c *patientConn) SetReadDeadline(t time.Time) error {
	c.came.Store(false)
	c.read.set(t)
	return c.Conn.SetReadDeadline(t)
}

func (c *patientConn) SetWriteDeadline(t time.Time) error {
	c.write.set(t)
	return c.Conn.SetWriteDeadline(t)
}

func (c *patientConn) Read(b []byte) (int, error) {
	if c.came.Load() { // most answers come in one piece: only a further one needs a deadline of its own
		c.read.again(c.Conn.SetReadDeadline)
	}
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.came.Store(true)
	}
	return n, err
}

func (c *patientConn) Write(b []byte) (written int, err error) {
	for piece := range slices.Chunk(b, writePiece) {
		if written > 0 {
			c.write.again(c.Conn.SetWriteDeadline)
		}
		n, err := c.Conn.Write(piece)
		if written += n; err != nil {
			return written, err
		}
	}
	return written, nil
}

// timeout is how long a deadline was away when it was set; 0 if there is none.
type timeout struct{ length atomic.Int64 }

func (t *timeout) set(deadline time.Time) {
	var length time.Duration
	if !deadline.IsZero() {
		length = max(time.Until(deadline), 0)
	}
	t.length.Store(int64(length))
}

func (t *timeout) again(set func(time.Time) error) {
	if d := t.length.Load(); d > 0 {
		set(time.Now().Add(time.Duration(d)))
	}
}
