// Package redisconn connects to Redis: dialing, pools, Sentinel, and the slot map of a Cluster.
//
// A [Router] says on which node the keys of a partition are: a [Server] for one Redis, a [Cluster] otherwise. The [Source] of a
// partition gives connections. A connection that was idle for a while is checked with a PING before its next use, by Get, or by redigo
// for programs that use the pool directly. A Dialer opens connections, and asks its Locator each time where to: for an empty pool, for a
// subscription, and, in Replace, for a call whose server accepts no writes.
//
// Invariants: the end of a ctx closes no healthy connection of a pool. A node that no longer has slots loses its connections, but its
// redigo pool is never closed, because that may panic under a call.
package redisconn

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// CheckAfter is how long a connection may rest untried, so that a restarted Redis costs nobody an error.
const CheckAfter = time.Second

// Pool is a redigo pool, made by us or by anybody.
type Pool struct{ *redis.Pool }

// Get implements Source. The end of ctx does not cut a PING short: the
// connection goes back to the pool once it has answered. redigo would close it, and the next one, and so on:
// a caller in a hurry would cost the pool all of them.
func (p Pool) Get(ctx context.Context) (redis.Conn, error) {
	for {
		b := &borrow{Context: ctx}
		conn, err := p.GetContext(b)
		if err != nil || !b.rested {
			return conn, err
		}
		tried := make(chan error, 1)
		go func() { tried <- ping(conn) }()
		select {
		case err = <-tried:
		case <-ctx.Done():
			go func() {
				<-tried
				conn.Close()
			}()
			return nil, ctx.Err()
		}
		if err == nil {
			return conn, nil
		}
		conn.Close() // which does not keep it
	}
}

// GetUntried implements Source.
func (p Pool) GetUntried(ctx context.Context) (conn redis.Conn, rested bool, err error) {
	b := &borrow{Context: ctx}
	conn, err = p.GetContext(b)
	return conn, b.rested, err
}

// borrow is the context with which we take a connection ourselves: nobody tries it then.
type borrow struct {
	context.Context
	rested bool
}

// CheckRested is a pool's TestOnBorrowContext.
func CheckRested(ctx context.Context, conn redis.Conn, lastUsed time.Time) error {
	if time.Since(lastUsed) < CheckAfter {
		return nil
	}
	if b, ours := ctx.(*borrow); ours {
		b.rested = true
		return nil
	}
	return ping(conn)
}

// ping asks for a sign of life, within the connection's own timeouts. That Redis says no is one.
func ping(conn redis.Conn) error {
	conn.Do("PING")
	return conn.Err()
}

// Dial implements Source.
func (p Pool) Dial(ctx context.Context) (redis.Conn, error) {
	switch {
	case p.DialContext != nil:
		return p.DialContext(ctx)
	case p.Pool.Dial != nil:
		return p.Pool.Dial()
	}
	return nil, errors.New("redis pool has neither DialContext nor Dial")
}

// Replace dials anew for a connection whose server does not do our work any more. The old one does not go
// back to the pool; it is closed unless there is an error.
func (p Pool) Replace(ctx context.Context, old redis.Conn) (redis.Conn, error) {
	spoil(old)
	conn, err := p.Dial(ctx)
	if err != nil {
		return nil, err
	}
	old.Close()
	return conn, nil
}

// spoil breaks a connection, since a pool keeps all that are not broken. A PING whose deadline has
// already passed always does.
func spoil(conn redis.Conn) { redis.DoWithTimeout(conn, -1, "PING") }

// Server is the Router of a single server, and the Source of all of its keys.
type Server struct {
	Pool
	node   Node
	inVain atomic.Int64 // when a connection was replaced in vain, in Unix ms
}

// replaceEvery is how long a Server that takes no writes keeps its connections after one was replaced in vain. Otherwise a Redis that loads
// for minutes would use up the ports with thousands of connections.
const replaceEvery = 100 * time.Millisecond

// MayReplace reports whether Replace may find another server.
func (s *Server) MayReplace() bool {
	return time.Since(time.UnixMilli(s.inVain.Load())).Abs() >= replaceEvery
}

// ReplacedInVain records that a new connection did not lead to a server that does our work.
func (s *Server) ReplacedInVain() { s.inVain.Store(time.Now().UnixMilli()) }

// At returns the server.
func (s *Server) At(string) Source { return s }

// Locate does nothing.
func (s *Server) Locate(context.Context) error { return nil }

// Version never changes.
func (s *Server) Version() uint64 { return 0 }

// Node returns the one node.
func (s *Server) Node() *Node { return &s.node }
