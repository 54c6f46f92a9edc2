// Package store is the only one that knows how jobs lie in Redis. Every change
// of a job's state is one method and one Lua script beside it, named alike;
// the script's header says what it takes, gives and costs.
package store

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Store is a set of jobs in one Redis database. It is safe for concurrent use.
type Store struct {
	pool *redis.Pool
	keys Keys
}

// New makes a Store of the jobs whose keys begin with prefix.
func New(pool *redis.Pool, prefix string) *Store {
	return &Store{pool: pool, keys: Keys{prefix}}
}

// Keys names the store's keys.
func (s *Store) Keys() Keys { return s.keys }

//go:embed lua
var lua embed.FS

// script makes a script of lua/name.lua, behind what it needs of the shared parts.
func script(name string, shared ...string) *redis.Script {
	var source strings.Builder
	for _, part := range append(shared, name) {
		text, err := lua.ReadFile("lua/" + part + ".lua")
		if err != nil {
			panic(err) // the name is a constant of this package
		}
		source.Write(text)
	}
	return redis.NewScript(-1, source.String())
}

// run runs a script on a connection of the pool. When ctx is done it returns at
// once, whether Redis has run the script or not.
func (s *Store) run(ctx context.Context, script *redis.Script, keys []string, args ...any) (any, error) {
	conn, err := s.pool.GetContext(ctx)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	defer conn.Close()
	if ctx.Done() == nil {
		return script.Do(conn, scriptArgs(keys, args...)...) // spares DoContext's goroutine
	}
	reply, err := script.DoContext(ctx, conn, scriptArgs(keys, args...)...)
	return reply, causeOf(ctx, err)
}

// causeOf is ctx's deadline if that is behind err: redigo reads with a timeout
// that ends with it, and either may be first.
func causeOf(ctx context.Context, err error) error {
	deadline, ok := ctx.Deadline()
	if ok && errors.Is(err, os.ErrDeadlineExceeded) && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return err
}

func scriptArgs(keys []string, args ...any) []any {
	all := make([]any, 0, 1+len(keys)+len(args))
	all = append(all, len(keys))
	for _, key := range keys {
		all = append(all, key)
	}
	return append(all, args...)
}

// Dial opens a connection of its own, which does not count among the pool's.
func (s *Store) Dial(ctx context.Context) (redis.Conn, error) {
	switch {
	case s.pool.DialContext != nil:
		return s.pool.DialContext(ctx)
	case s.pool.Dial != nil:
		return s.pool.Dial()
	}
	return nil, errors.New("redis pool has neither DialContext nor Dial")
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
	return fmt.Errorf("redis answered %s with %v", script, reply)
}
