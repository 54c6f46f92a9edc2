package redisconn

import (
	"context"
	"net"
	"slices"
	"sync/atomic"
	"time"
)

// patientConn is a connection whose deadlines bound silence, not size: they start again with every piece that arrives or leaves. So an
// answer of many megabytes gets through a slow link, and a Redis that hangs halfway through one is still noticed.
type patientConn struct {
	net.Conn
	readTimeout, writeTimeout time.Duration // of a further piece; 0: none
	again                     atomic.Bool   // a piece has arrived since the deadline was set
}

// writePiece is how much is written under one deadline.
const writePiece = 64 << 10

func (d Dialer) dialPatient(ctx context.Context, network, addr string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: d.ConnectTimeout, KeepAlive: 5 * time.Minute}
	conn, err := dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &patientConn{Conn: d.Locator.Guard(addr, conn), readTimeout: d.ReadTimeout, writeTimeout: d.WriteTimeout}, nil
}

func (c *patientConn) SetReadDeadline(t time.Time) error {
	c.again.Store(false)
	return c.Conn.SetReadDeadline(t)
}

func (c *patientConn) Read(b []byte) (int, error) {
	if c.again.Load() && c.readTimeout > 0 { // most answers come in one piece: only a further one needs a deadline of its own
		c.Conn.SetReadDeadline(time.Now().Add(c.readTimeout))
	}
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.again.Store(true)
	}
	return n, err
}

func (c *patientConn) Write(b []byte) (written int, err error) {
	for piece := range slices.Chunk(b, writePiece) {
		if written > 0 && c.writeTimeout > 0 {
			c.Conn.SetWriteDeadline(time.Now().Add(c.writeTimeout))
		}
		n, err := c.Conn.Write(piece)
		if written += n; err != nil {
			return written, err
		}
	}
	return written, nil
}
