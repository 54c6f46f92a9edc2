// Package redisconn connects to Redis: dialing, pools, and where the server of some keys is.
//
// A [Source] gives connections to the server that has the keys of a slot. A [Locator] finds its address: [Fixed] for one Redis, [Sentinel] for its
// master, [Cluster] for the owner of the slot. It is asked for each new connection: for an empty pool, for a subscription, and in
// Replace, for a server that does not do our work any more (READONLY, MOVED). A connection that was idle for a while is checked with a PING before
// its next use, by Get, or by redigo for programs that use the pool directly.
//
// Invariants: the end of a ctx closes no healthy connection of a pool. Connections to a master that was replaced, and to a node without slots, are
// closed, but the node's redigo pool is not, because that may panic under a call.
package redisconn

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Redis is where jobs are kept: a *redis.Pool, whose connections lead to one server, or a *Cluster.
type Redis interface{ Close() error }

// Source gives connections to the server that has the keys.
type Source struct {
	pool    *redis.Pool // nil in a cluster
	cluster *Cluster    // nil unless there is one
	slot    int
	inVain  atomic.Int64 // when a connection was replaced in vain, in Unix ms
}

// NewSource returns the Source of a Redis. In a cluster, see Of.
func NewSource(r Redis) *Source {
	if c, ok := r.(*Cluster); ok {
		return &Source{cluster: c}
	}
	pool, _ := r.(*redis.Pool)
	return &Source{pool: pool}
}

// Of returns the Source of the keys with that prefix, which is s itself unless there is a cluster. There the prefix must have a tag.
func (s *Source) Of(prefix string) *Source {
	if s.cluster == nil {
		return s
	}
	return &Source{cluster: s.cluster, slot: SlotOf(prefix)}
}

// Get waits for a connection, whose Close returns it. One that has rested is tried with a PING, and if that fails, others that have rested are not: a hung
// Redis would cost the caller a timeout for each. The end of ctx does not cut a PING short: the connection goes back to the pool once it has answered. redigo
// would close it, and the next one, and so on: a caller in a hurry would cost the pool all of them.
func (s *Source) Get(ctx context.Context) (redis.Conn, error) {
	for b := (&borrow{Context: ctx}); ; b.fresh = true {
		var conn redis.Conn
		var err error
		if s.cluster != nil {
			conn, err = s.fromOwner(b)
		} else {
			conn, err = s.pool.GetContext(b)
		}
		if err != nil || !b.rested {
			return conn, err
		}
		b.rested = false
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

// GetUntried is Get without the PING to a connection that has rested. If such a connection fails, make the call again on another one.
func (s *Source) GetUntried(ctx context.Context) (conn redis.Conn, rested bool, err error) {
	b := &borrow{Context: ctx}
	if s.cluster != nil {
		conn, err = s.fromOwner(b)
	} else {
		conn, err = s.pool.GetContext(b)
	}
	return conn, b.rested, err
}

// fromOwner takes a connection to the node that owns the slot. While that can't be reached it is tried again, until it has been away for RetryWindow, as
// long as other nodes answer: one of them is about to take its place.
func (s *Source) fromOwner(b *borrow) (redis.Conn, error) {
	for tries := NewTries(RetryWindow); ; {
		n, err := s.cluster.owner(b, s.slot)
		if err != nil {
			return nil, err
		}
		asked := time.Now()
		conn, err := n.pool.GetContext(b)
		if err == nil || b.Err() != nil || !n.mayComeBack() || s.cluster.learn(b, asked) != nil || !tries.Wait(b) {
			return conn, err
		}
	}
}

// Dial opens a connection that is the caller's own, and does not count among the pool's.
func (s *Source) Dial(ctx context.Context) (redis.Conn, error) {
	pool := s.pool
	if s.cluster != nil {
		n, err := s.cluster.owner(ctx, s.slot)
		if err != nil {
			return nil, err
		}
		pool = n.pool
	}
	switch {
	case pool.DialContext != nil:
		return pool.DialContext(ctx)
	case pool.Dial != nil:
		return pool.Dial()
	}
	return nil, errors.New("redis pool has neither DialContext nor Dial")
}

// Replace returns another connection for one whose server does not do our work any more, and closes that one. It does not go back to a server's
// pool. A cluster's node keeps it, for other slots.
func (s *Source) Replace(ctx context.Context, old redis.Conn) (redis.Conn, error) {
	if s.cluster != nil {
		old.Close()
		return s.Get(ctx)
	}
	redis.DoWithTimeout(old, -1, "PING") // breaks it, because its deadline has passed; a pool keeps all that are not broken
	conn, err := s.Dial(ctx)
	if err == nil {
		old.Close()
	}
	return conn, err
}

// replaceEvery is how long a server that takes no writes keeps its connections after one was replaced in vain. Otherwise a Redis that loads
// for minutes would use up the ports with thousands of connections.
const replaceEvery = 100 * time.Millisecond

// MayReplace reports whether Replace may find another server.
func (s *Source) MayReplace() bool {
	return time.Since(time.UnixMilli(s.inVain.Load())).Abs() >= replaceEvery
}

// ReplacedInVain records that a new connection did not lead to a server that does our work.
func (s *Source) ReplacedInVain() { s.inVain.Store(time.Now().UnixMilli()) }

// InCluster reports whether the keys are in a slot of a cluster.
func (s *Source) InCluster() bool { return s.cluster != nil }

// Sharded reports whether the cluster's nodes know the channels of slots, SPUBLISH and SSUBSCRIBE, as they do from Redis 7.0 on. It is known once there
// was a connection.
func (s *Source) Sharded() bool {
	if s.cluster == nil {
		return false
	}
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	return s.cluster.sharded
}

// Moved takes in that the owner of the slot has said who owns it now: see Cluster.moved.
func (s *Source) Moved(addr string) {
	if s.cluster != nil {
		s.cluster.moved(s.slot, addr)
	}
}

// Addr returns the address of the cluster's node that owns the slot; "" if no node does, or there is no cluster. It asks the nodes only if that is not
// known, and fails if none answers.
func (s *Source) Addr(ctx context.Context) (string, error) {
	if s.cluster == nil {
		return "", nil
	}
	err := s.cluster.learn(ctx, time.Time{})
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	return s.cluster.ownerOf(s.slot), err
}

// CheckAfter is how long a connection may rest untried, so that a restarted Redis costs nobody an error.
const CheckAfter = time.Second

// borrow is the context with which we take a connection ourselves: nobody tries it then.
type borrow struct {
	context.Context
	rested bool // the connection has
	fresh  bool // the pool closes those that have rested
}

var errRested = errors.New("another connection that has rested as well does not work")

// CheckRested is a pool's TestOnBorrowContext.
func CheckRested(ctx context.Context, conn redis.Conn, lastUsed time.Time) error {
	b, ours := ctx.(*borrow)
	switch {
	case time.Since(lastUsed) < CheckAfter:
		return nil
	case !ours:
		return ping(conn)
	case b.fresh:
		return errRested
	}
	b.rested = true
	return nil
}

// ping asks for a sign of life, within the connection's own timeouts. That Redis says no is one.
func ping(conn redis.Conn) error {
	conn.Do("PING")
	return conn.Err()
}
