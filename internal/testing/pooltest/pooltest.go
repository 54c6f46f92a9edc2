// Package pooltest makes pools for tests that observe the traffic of connections.
package pooltest

import (
	"context"
	"net"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/redisconn"
)

// Wrap wraps a connection that was dialled with ctx.
type Wrap func(ctx context.Context, conn net.Conn) net.Conn

// Through returns a pool for the server at addr, or for its cluster. Connections are wrapped and have no
// timeouts. Up to maxIdle are kept idle.
func Through(addr string, clustered bool, maxIdle int, wrap Wrap) redisconn.Redis {
	if clustered {
		newPool := func(d redisconn.Dialer) *redis.Pool { return pool(d.Locator, maxIdle, wrap) }
		return redisconn.NewCluster([]string{addr}, redisconn.Dialer{}, newPool)
	}
	return pool(redisconn.Fixed(addr), maxIdle, wrap)
}

func pool(l redisconn.Locator, maxIdle int, wrap Wrap) *redis.Pool {
	dial := func(ctx context.Context, addr string) (redis.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		return redis.NewConn(wrap(ctx, l.Guard(addr, conn)), 0, 0), nil
	}
	return &redis.Pool{MaxIdle: maxIdle, DialContext: func(ctx context.Context) (redis.Conn, error) { return l.Locate(ctx, dial) }}
}
