// Package pooltest makes pools for tests that observe the traffic of connections.
package pooltest

import (
	"context"
	"net"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// Wrap wraps a connection that was dialled with ctx.
type Wrap func(ctx context.Context, conn net.Conn) net.Conn

// Through returns the test's Redis, reached over connections that are wrapped and have no timeouts. Up to maxIdle are
// kept idle.
func Through(s *redistest.Server, maxIdle int, wrap Wrap) *client.Redis {
	var conns redisconn.Redis = pool(redisconn.Fixed(s.Addr), maxIdle, wrap)
	if s.Clustered {
		newPool := func(d redisconn.Dialer) *redis.Pool { return pool(d.Locator, maxIdle, wrap) }
		conns = redisconn.NewCluster([]string{s.Addr}, redisconn.Dialer{}, newPool)
	}
	return (*client.Redis)(fleet.NewRedis(conns, s.Partitions, conns.Close))
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
