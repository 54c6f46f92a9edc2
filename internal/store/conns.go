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

// Get waits for a connection of the pool. One that has rested is tried before.
func (p Pool) Get(ctx context.Context) (redis.Conn, error) {
	for {
		b := &borrow{Context: ctx}
		conn, err := p.GetContext(b)
		if err != nil || !b.rested {
			return conn, err
		}
		alive, err := try(ctx, conn)
		if err != nil {
			return nil, err
		}
		if alive {
			return conn, nil
		}
		conn.Close() // which does not keep it
	}
}

// borrow is the context with which Get takes a connection of a redigo pool.
type borrow struct {
	context.Context
	rested bool
}

// TriesItself tells the taker of a connection, whose context that is, that it has rested. It reports
// whether he will try it himself.
func TriesItself(ctx context.Context) bool {
	b, ok := ctx.(*borrow)
	if ok {
		b.rested = true
	}
	return ok
}

// try asks for a sign of life. How long the answer may take is the connection's affair: when ctx ends
// before, it is still waited for, and the connection goes back then. So a caller in a hurry does not
// cost the pool one connection after the other.
func try(ctx context.Context, conn redis.Conn) (alive bool, err error) {
	if ctx.Done() == nil {
		return Alive(conn) == nil, nil
	}
	tried := make(chan bool)
	go func() {
		alive := Alive(conn) == nil
		select {
		case tried <- alive:
		case <-ctx.Done():
			conn.Close()
		}
	}()
	select {
	case alive = <-tried:
		return alive, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// Alive asks a connection for a sign of life, within its own timeouts. That Redis says no is one.
func Alive(conn redis.Conn) error {
	conn.Do("PING")
	return conn.Err()
}

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
