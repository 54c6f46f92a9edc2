package redisconn

import (
	"context"
	"errors"

	"github.com/gomodule/redigo/redis"
)

// Redis is where jobs are kept: a *redis.Pool, whose connections lead to one server, or a *Cluster.
type Redis interface {
	GetContext(ctx context.Context) (redis.Conn, error)
	Close() error
}

// Router knows on which node the keys with a prefix are. It learns from what the nodes answer that this has changed.
type Router interface {
	// At returns where the keys with that prefix are.
	At(prefix string) Source
	// Locate finds out on which nodes all keys are, unless that is known.
	Locate(ctx context.Context) error
	// Version changes whenever some keys may be on another node than before.
	Version() uint64
}

// Source is where the connections to one partition come from.
type Source interface {
	// Get waits for a connection. Its Close returns it.
	Get(ctx context.Context) (redis.Conn, error)
	// GetUntried is Get without the PING to a connection that has rested. If such a connection fails, make the
	// call again on another one.
	GetUntried(ctx context.Context) (conn redis.Conn, rested bool, err error)
	// Dial opens a connection that is the caller's own, and does not count among the pool's.
	Dial(ctx context.Context) (redis.Conn, error)
	// Node returns the node that connections lead to now.
	Node() *Node
}

// ByNode groups items by the node that each one's source leads to now. Groups, and the items of each, keep their order.
func ByNode[T any](items []T, source func(T) Source) [][]T {
	return GroupBy(items, func(item T) *Node { return source(item).Node() })
}

// GroupBy groups items that have the same key. Groups, and the items of each, keep their order.
func GroupBy[T any, K comparable](items []T, key func(T) K) (groups [][]T) {
	places := map[K]int{}
	for _, item := range items {
		k := key(item)
		place, known := places[k]
		if !known {
			place = len(groups)
			places[k], groups = place, append(groups, nil)
		}
		groups[place] = append(groups[place], item)
	}
	return groups
}

// CheckRedis refuses what no Router can be made of.
func CheckRedis(r Redis) error {
	switch r := r.(type) {
	case *Cluster:
		if r != nil {
			return nil
		}
	case *redis.Pool:
		if r != nil {
			return nil
		}
	case nil:
	default:
		return errors.New("it is neither a *redis.Pool nor made by client.Connect")
	}
	return errors.New("it is nil")
}

// NewRouter makes the Router of a Redis that CheckRedis accepts.
func NewRouter(r Redis) Router {
	if c, ok := r.(*Cluster); ok {
		return c
	}
	pool, _ := r.(*redis.Pool)
	return &Server{Pool: Pool{pool}}
}
