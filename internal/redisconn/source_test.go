package redisconn

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// deadConn fails once its server hangs.
type deadConn struct {
	redis.Conn
	server *deadServer
	err    error
}

type deadServer struct {
	hangs  bool
	dialed int
	tried  int
}

func (c *deadConn) Do(command string, _ ...any) (any, error) {
	if command == "PING" {
		if c.server.tried++; c.server.hangs {
			c.err = errors.New("i/o timeout")
		}
	}
	return nil, c.err
}

func (c *deadConn) Err() error   { return c.err }
func (c *deadConn) Close() error { return nil }

// Of connections that have rested one is tried. If it does not work, the others are not tried: a caller waits for one timeout, not for many.
func TestOneRestedConnectionIsTried(t *testing.T) {
	t.Parallel()
	for _, hangs := range []bool{false, true} {
		server := &deadServer{}
		pool := &redis.Pool{
			MaxIdle:     5,
			DialContext: func(context.Context) (redis.Conn, error) { server.dialed++; return &deadConn{server: server}, nil },
			TestOnBorrowContext: func(ctx context.Context, conn redis.Conn, lastUsed time.Time) error {
				return CheckRested(ctx, conn, lastUsed.Add(-CheckAfter))
			},
		}
		defer pool.Close()
		source := NewSource(pool)
		var conns []redis.Conn
		for range 5 {
			conns = append(conns, redistest.Must(source.Get(t.Context())))
		}
		for _, conn := range conns {
			conn.Close()
		}
		server.hangs, server.dialed = hangs, 0
		conn, err := source.Get(t.Context())
		redistest.Check(t, err)
		if conn.Err() != nil || server.tried != 1 || hangs != (server.dialed == 1) {
			t.Errorf("hangs: %v: %d are tried, and %d dialled: %v", hangs, server.tried, server.dialed, conn.Err())
		}
		conn.Close()
	}
}
