package daemon

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/server"
)

// CheckRedis checks once, for at most checkWait, whether the server can work with Redis. Its error wraps
// server.ErrRefused if a retry can't help.
func CheckRedis(ctx context.Context, work *server.Server, o client.PoolOptions) error {
	ctx, cancel := context.WithTimeout(ctx, checkWait)
	defer cancel()
	err := work.Check(ctx)
	switch {
	case store.KindOf(err) != store.NoAnswer, works(err):
	case errors.As(err, new(x509.UnknownAuthorityError)):
		err = fmt.Errorf("%w (redis.tls_ca names the authorities to trust)", err)
	case errors.Is(err, server.ErrRefused):
	default:
		return cmp.Or(misfit(ctx, o), err)
	}
	return err
}

// misfit returns ErrRefused if TLS is used but not expected, or the reverse: at Redis's address, at all sentinels, at the
// master that the sentinels report, or at the first node of a cluster.
func misfit(ctx context.Context, o client.PoolOptions) error {
	if len(o.Cluster) > 0 {
		node := o.Cluster[0]
		return misfitAt(ctx, o.TLS, "node "+node, node)
	}
	if len(o.Sentinels) == 0 {
		return misfitAt(ctx, o.TLS, "it", o.Addr)
	}
	var first error
	for _, sentinel := range o.Sentinels {
		err := misfitAt(ctx, o.TLS, "sentinel "+sentinel, sentinel)
		if err == nil {
			master, err := Sentinels(o).Master(ctx)
			if err != nil {
				return nil
			}
			return misfitAt(ctx, o.TLS, "master "+master, master)
		}
		first = cmp.Or(first, err)
	}
	return first
}

// Sentinels returns a client of the sentinels.
func Sentinels(o client.PoolOptions) *redisconn.Sentinel {
	dialer := redisconn.Dialer{
		Username: o.SentinelUsername, Password: o.SentinelPassword, TLS: o.TLS,
		ConnectTimeout: time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second,
	}
	return redisconn.NewSentinel(o.SentinelMaster, o.Sentinels, dialer)
}

func misfitAt(ctx context.Context, config *tls.Config, name, addr string) error {
	switch {
	case config == nil && speaksTLS(ctx, addr):
		return fmt.Errorf("%w: %s wants TLS: set redis.tls = true, or take its other port", server.ErrRefused, name)
	case config != nil && speaksPlainly(ctx, addr):
		return fmt.Errorf("%w: %s does not speak TLS on this port: set redis.tls = false, or take its other port", server.ErrRefused, name)
	case config != nil:
		if why := alert(ctx, config, addr); why != nil {
			return fmt.Errorf("%w: %w", server.ErrRefused, why)
		}
	}
	return nil
}

// works reports whether the server works in spite of the error.
func works(err error) bool {
	return errors.Is(err, server.ErrNoChannel) || errors.Is(err, server.ErrNoFeature) || errors.Is(err, server.ErrEvicts)
}

// evicts returns the part of the error about evicted keys, or nil.
func evicts(checked error) error {
	parts, _ := checked.(interface{ Unwrap() []error })
	if parts == nil || !errors.Is(checked, server.ErrEvicts) {
		return nil
	}
	all := parts.Unwrap()
	return all[slices.IndexFunc(all, func(err error) bool { return errors.Is(err, server.ErrEvicts) })]
}

// waitsForRedis returns an addition to the start's line if Redis does not serve the daemon yet.
func waitsForRedis(err error) string {
	switch {
	case err == nil, works(err):
		return ""
	case store.KindOf(err) != store.NoAnswer:
		return fmt.Sprintf("; Redis does not serve it yet: %v", err)
	}
	return fmt.Sprintf("; Redis has not responded yet: %v", err)
}

// alert returns the TLS alert of a Redis that refuses the connection. The alert comes after the handshake; a command
// sent in the meantime might only see a reset connection.
func alert(ctx context.Context, config *tls.Config, addr string) error {
	return redisconn.Alert(probe(ctx, addr, func(conn net.Conn) error {
		_, err := tls.Client(conn, redisconn.TLSConfig(config, addr)).Read(make([]byte, 1))
		return err
	}))
}

// speaksTLS tries a handshake that reveals no credentials. A TLS alert counts as an answer.
func speaksTLS(ctx context.Context, addr string) bool {
	err := probe(ctx, addr, func(conn net.Conn) error {
		return tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx)
	})
	return err == nil || redisconn.Alert(err) != nil
}

// speaksPlainly sends a PING, which Redis answers with or without a password.
func speaksPlainly(ctx context.Context, addr string) bool {
	first := []byte{0}
	probe(ctx, addr, func(conn net.Conn) error {
		conn.Write([]byte("PING\r\n"))
		_, err := conn.Read(first)
		return err
	})
	return first[0] == '+' || first[0] == '-'
}

// probe runs try on a new connection, whose reads and writes end with ctx.
func probe(ctx context.Context, addr string, try func(net.Conn) error) error {
	conn, err := new(net.Dialer).DialContext(ctx, redisconn.Network(addr), addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	return try(conn)
}
