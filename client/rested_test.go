package client_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
)

// restedPool returns a pool with this many idle connections, and their IDs in Redis.
func (f *fixture) restedPool(n int) (*redis.Pool, []string) {
	f.TB.Helper()
	before := f.connectionIDs()
	pool := f.idlePool(n)
	rest()
	ids := slices.DeleteFunc(f.connectionIDs(), func(id string) bool { return slices.Contains(before, id) })
	if len(ids) != n || pool.IdleCount() != n {
		f.TB.Fatalf("%d connections, %d idle, want %d", len(ids), pool.IdleCount(), n)
	}
	return pool, ids
}

// idlePool returns a pool whose n connections were just used.
func (f *fixture) idlePool(n int) *redis.Pool {
	f.TB.Helper()
	pool := client.PoolOf(client.PoolOptions{Addr: f.Addr})
	f.TB.Cleanup(func() { pool.Close() })
	conns := make([]redis.Conn, n)
	for i := range conns {
		conns[i] = pool.Get()
		_, err := conns[i].Do("PING")
		check(f.TB, err)
	}
	for _, conn := range conns {
		conn.Close()
	}
	return pool
}

// rest waits until idle connections are checked before use.
func rest() { time.Sleep(client.CheckAfter + 50*time.Millisecond) }

// connectionIDs returns the IDs of Redis's connections.
func (f *fixture) connectionIDs() []string {
	f.TB.Helper()
	var ids []string
	for line := range strings.Lines(string(f.Do("CLIENT", "LIST").([]byte))) {
		id, _, _ := strings.Cut(line, " ")
		ids = append(ids, id)
	}
	return ids
}

// If Redis stalls, calls with a short deadline return at the deadline. They cost no idle connection, and neither do
// calls that only wait for a connection.
func TestShortDeadlinesLeaveThePool(t *testing.T) {
	t.Parallel()
	f := start(t, alone, onePool)
	f.Fetch(t.Context(), clienttest.Ready("t", 1, 0))
	const rested = 30
	pool, ids := f.restedPool(rested)
	c := clienttest.On(pool)
	defer c.Close()
	f.Hang()
	var callers sync.WaitGroup
	for name := range calls(c, nil) {
		for range 2 {
			callers.Go(func() {
				if err := calls(c, deadline(t, 50*time.Millisecond))[name](); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: %v, want the deadline's error", name, err)
				}
			})
		}
	}
	callers.Wait()
	f.Continue()
	until(t, "all connections are back", func() bool { return pool.IdleCount() == rested })
	now := f.connectionIDs()
	for _, id := range ids {
		if !slices.Contains(now, id) {
			t.Errorf("connection %s is gone", id)
		}
	}
	if n := pool.ActiveCount(); n != rested {
		t.Errorf("%d connections, want the %d of before", n, rested)
	}
}

// Dead idle connections make no call fail, whether its wait can end or not.
func TestRestedConnectionsThatAreDead(t *testing.T) {
	t.Parallel()
	f := start(t, alone, onePool)
	calls := map[string]func(pool *redis.Pool) error{
		"a call without an end": func(pool *redis.Pool) error { return get(context.Background(), pool) },
		"one that can end":      func(pool *redis.Pool) error { return get(t.Context(), pool) },
		"one with a deadline":   func(pool *redis.Pool) error { return get(deadline(t, hangBound), pool) },
		"somebody else's":       func(pool *redis.Pool) error { _, err := pool.Get().Do("PING"); return err },
	}
	pools := map[string]*redis.Pool{}
	for name := range calls {
		pools[name] = f.idlePool(8)
	}
	rest()
	f.killConnections()
	for name, call := range calls {
		if err := call(pools[name]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n := pools[name].ActiveCount(); n != 1 {
			t.Errorf("%s: %d connections, want the new one", name, n)
		}
	}
}

// get makes a call that needs a connection of the pool.
func get(ctx context.Context, pool *redis.Pool) error {
	_, err := clienttest.On(pool).Get(ctx, "none")
	if errors.Is(err, client.ErrNotFound) {
		return nil
	}
	return err
}

// A Redis that answers each command with an error is alive, so its connections are kept.
func TestRestedConnectionsOfABusyRedis(t *testing.T) {
	t.Parallel()
	f := start(t, settings("--lua-time-limit", "1"), onePool)
	pool, _ := f.restedPool(3)
	busy := make(chan error, 1)
	script := f.Pool().Get()
	defer script.Close()
	go func() {
		_, err := script.Do("EVAL", "while true do end", 0)
		busy <- err
	}()
	until(t, "Redis is busy", func() bool { _, err := f.Conn().Do("PING"); return err != nil })
	err := get(deadline(t, hangBound), pool)
	f.Do("SCRIPT", "KILL")
	if arrival(t, busy) == nil || err == nil || !strings.Contains(err.Error(), "BUSY") {
		t.Errorf("error %v, want BUSY", err)
	}
	if n := pool.ActiveCount(); n != 3 {
		t.Errorf("%d connections are kept, want 3", n)
	}
}
