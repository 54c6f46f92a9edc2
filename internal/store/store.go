// Package store is the only one that knows how jobs lie in Redis. Every change
// of a job's state is one method and one Lua script beside it, named alike;
// the script's header says what it takes, gives and costs.
package store

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/redisconn"
)

// Store is a set of jobs in one Redis database: one partition. It is safe for
// concurrent use.
type Store struct {
	pool    redisconn.Source
	keys    Keys
	jobPool string // its key, which almost every script is given
	recent  *recentTopics

	layoutCheck *layoutCheck // of all its partitions; nil if it was made with New
	place       int          // among its Partitions
	onReplaced  func()       // see Partitions.OnReplaced
}

// New makes a Store of the jobs on the pool's Redis whose keys begin with prefix.
func New(pool *redis.Pool, prefix string) *Store {
	keys := Keys{prefix}
	return &Store{pool: redisconn.On(pool, prefix), keys: keys, jobPool: keys.JobPool(), recent: newRecentTopics()}
}

// Node is the same for Stores whose connections come from one pool now: their calls may share a pipeline. As long as
// it is not known, no other Store has the same. It can be compared.
func (s *Store) Node() any { return s.pool.Node() }

// NodeAddr is the address of the cluster's node that has the store's keys now; empty where there is no cluster, or while it is
// not known.
func (s *Store) NodeAddr() string {
	if node, ok := s.Node().(fmt.Stringer); ok {
		return node.String()
	}
	return ""
}

// Keys names the store's keys.
func (s *Store) Keys() Keys { return s.keys }

// connection waits for one of the pool.
func (s *Store) connection(ctx context.Context) (redis.Conn, error) {
	if c := s.layoutCheck; c != nil && !c.done.Load() {
		if err := c.pass(ctx); err != nil {
			return nil, err
		}
	}
	conn, err := s.pool.Get(ctx)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	return conn, nil
}

// milliseconds rounds up: a delay must not get shorter.
func milliseconds(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}

func errReply(script string, reply any) error {
	return fmt.Errorf("redis answered %s with %.1000s", script, fmt.Sprint(reply))
}

// Ping asks for a sign of life.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.command(ctx, "PING")
	return err
}
