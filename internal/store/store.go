// Package store is the only one that knows how jobs lie in Redis. Every change
// of a job's state is one method and one Lua script beside it, named alike;
// the script's header says what it takes, gives and costs.
package store

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/redispool"
)

// Store is a set of jobs in one Redis database: one partition. It is safe for
// concurrent use.
type Store struct {
	pool  redispool.Pool
	keys  Keys
	known *knownTopics
}

// New makes a Store of the jobs on the pool's Redis whose keys begin with prefix.
func New(pool *redis.Pool, prefix string) *Store {
	return &Store{redispool.Pool{Pool: pool}, Keys{prefix}, newKnownTopics()}
}

// Keys names the store's keys.
func (s *Store) Keys() Keys { return s.keys }

// args are a call's arguments, behind a free place for what names the script.
func (*script) args(keys []string, args ...any) []any {
	all := make([]any, 2, 2+len(keys)+len(args))
	all[1] = len(keys)
	for _, key := range keys {
		all = append(all, key)
	}
	return append(all, args...)
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
	conn, err := s.pool.Get(ctx)
	if err != nil {
		return causeOf(ctx, err)
	}
	defer conn.Close()
	_, err = redis.DoContext(conn, ctx, "PING")
	return causeOf(ctx, err)
}
