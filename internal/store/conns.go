package store

import (
	"context"
	"errors"

	"github.com/gomodule/redigo/redis"
)

// Conns is where a Store's connections come from.
type Conns interface {
	// Get is a connection for a few calls. Its Close gives it back.
	Get(ctx context.Context) (redis.Conn, error)
	// Dial is a new connection that is the caller's own.
	Dial(ctx context.Context) (redis.Conn, error)
	// Discard marks a connection as bad although it works, because its server
	// does not do our work any more. Its Close does not give it back then.
	Discard(conn redis.Conn)
}

// Pool is a redigo pool as Conns.
type Pool struct{ *redis.Pool }

// Get waits for a connection of the pool.
func (p Pool) Get(ctx context.Context) (redis.Conn, error) { return p.GetContext(ctx) }

// Dial opens a connection that does not count among the pool's.
func (p Pool) Dial(ctx context.Context) (redis.Conn, error) {
	switch {
	case p.Pool.DialContext != nil:
		return p.Pool.DialContext(ctx)
	case p.Pool.Dial != nil:
		return p.Pool.Dial()
	}
	return nil, errors.New("redis pool has neither DialContext nor Dial")
}

// Discard breaks the connection, since a pool keeps all that are not broken. A PING with a
// timeout that is over already does that for certain.
func (p Pool) Discard(conn redis.Conn) { redis.DoWithTimeout(conn, -1, "PING") }
