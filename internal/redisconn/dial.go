package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Locator knows where the server is that takes our writes. Each dial asks it, so it need not be told of
// failures: what breaks, or takes no writes, is dialled anew.
type Locator interface {
	// Locate calls dial, with one address after the other, until that opens a connection.
	Locate(ctx context.Context, dial Dial) (redis.Conn, error)
	// Guard may close a connection to an address once the server is elsewhere.
	Guard(addr string, conn net.Conn) net.Conn
}

// Dial opens a connection to an address: host:port, or the path of a unix socket.
type Dial func(ctx context.Context, addr string) (redis.Conn, error)

// Fixed is the Locator of a server that is always at the same address.
type Fixed string

// Locate implements Locator.
func (f Fixed) Locate(ctx context.Context, dial Dial) (redis.Conn, error) {
	return dial(ctx, string(f))
}

// Guard implements Locator.
func (f Fixed) Guard(_ string, conn net.Conn) net.Conn { return conn }

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

	ConnectTimeout, ReadTimeout, WriteTimeout time.Duration // see patientConn
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
	if err != nil || d.Password != "" {
		return conn, err
	}
	// A Redis that wants a password says so to a short command; a long one it
	// calls a protocol error.
	if _, err := redis.DoContext(conn, ctx, "PING"); err != nil && !isAccepted(err) {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// isAccepted reports whether err refuses only the PING: we lack the permission, or the server does no work yet, as it
// answers to any other command as well.
func isAccepted(err error) bool {
	return slices.ContainsFunc([]string{"NOPERM", "LOADING", "MASTERDOWN"}, func(reason string) bool { return strings.HasPrefix(err.Error(), reason) })
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
