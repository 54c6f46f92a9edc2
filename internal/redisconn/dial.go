package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Network returns the network of an address: unix for the path of a socket, which begins with "/", "./", "../" or "@".
func Network(addr string) string {
	for _, p := range []string{"/", "./", "../", "@"} {
		if strings.HasPrefix(addr, p) {
			return "unix"
		}
	}
	return "tcp"
}

// Dialer opens connections.
type Dialer struct {
	Locator            Locator
	Username, Password string
	Database           int
	TLS                *tls.Config // nil: unencrypted

	ConnectTimeout, ReadTimeout, WriteTimeout time.Duration // 0: none; see patientConn
}

// within is a Dialer that waits no longer than that for a connection and for a reply.
func (d Dialer) within(most time.Duration) Dialer {
	for _, timeout := range []*time.Duration{&d.ConnectTimeout, &d.ReadTimeout} {
		if *timeout <= 0 || *timeout > most {
			*timeout = most
		}
	}
	return d
}

// to is a Dialer of connections to that address.
func (d Dialer) to(addr string) Dialer {
	d.Locator = Fixed(addr)
	return d
}

// Dial opens a connection on which Redis has accepted us.
func (d Dialer) Dial(ctx context.Context) (redis.Conn, error) { return d.Locator.Locate(ctx, d.dial) }

func (d Dialer) dial(ctx context.Context, addr string) (redis.Conn, error) {
	conn, err := redis.DialContext(ctx, Network(addr), addr,
		redis.DialContextFunc(d.dialPatient),
		redis.DialUseTLS(d.TLS != nil),
		redis.DialTLSConfig(TLSConfig(d.TLS, addr)),
		redis.DialTLSHandshakeTimeout(d.ConnectTimeout),
		redis.DialReadTimeout(d.ReadTimeout),
		redis.DialWriteTimeout(d.WriteTimeout),
		redis.DialUsername(d.Username),
		redis.DialPassword(d.Password),
		redis.DialDatabase(d.Database),
	)
	if err != nil {
		return nil, err
	}
	conn = timedConn{conn.(bothConn), d.ReadTimeout}
	if d.Password != "" {
		return conn, nil
	}
	// A Redis that wants a password says so to a short command; a long one it
	// calls a protocol error.
	if _, err := redis.DoContext(conn, ctx, "PING"); err != nil && !isAccepted(err) {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// timedConn waits for a reply without a goroutine if the context has a deadline but can't be canceled.
type timedConn struct {
	bothConn
	readTimeout time.Duration
}

type bothConn interface {
	redis.ConnWithTimeout
	redis.ConnWithContext
}

func (c timedConn) ReceiveContext(ctx context.Context) (any, error) {
	deadline, ok := ctx.Deadline()
	if !ok || ctx.Done() != nil {
		return c.bothConn.ReceiveContext(ctx)
	}
	left := time.Until(deadline)
	if c.readTimeout > 0 {
		left = min(left, c.readTimeout)
	}
	return c.ReceiveWithTimeout(max(left, 1)) // 0 would be no timeout
}

// isAccepted reports whether err refuses only the PING: we lack the permission, or the server does not do all work now. A server that does
// not accept us says NOAUTH, DENIED, or a plain ERR about the connection.
func isAccepted(err error) bool {
	var says redis.Error
	refuses := func(reason string) bool { return strings.HasPrefix(string(says), reason) }
	return errors.As(err, &says) && !slices.ContainsFunc([]string{"NOAUTH", "DENIED", "ERR"}, refuses)
}

// TLSConfig is config for the server at an address: unless config has another ServerName, that is the
// address's host, or localhost for a unix socket.
func TLSConfig(config *tls.Config, addr string) *tls.Config {
	if config == nil || config.ServerName != "" {
		return config
	}
	config = config.Clone()
	config.ServerName = "localhost"
	if Network(addr) == "tcp" {
		config.ServerName, _, _ = net.SplitHostPort(addr)
	}
	return config
}

// Alert is what the other side said when it broke off TLS, or nil if err is something else.
func Alert(err error) error {
	if at := (*net.OpError)(nil); errors.As(err, &at) && at.Op == "remote error" {
		return at
	}
	return nil
}

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
