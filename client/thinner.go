package client

import (
	"context"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
)

const (
	// keptIdle is how many connections are kept that nobody has needed for thinEvery.
	keptIdle  = 4
	thinEvery = 10 * time.Second
)

// thinner closes what a pool has opened for a crowd that is gone.
type thinner struct {
	pool  *redis.Pool
	every time.Duration

	mu       sync.Mutex
	watching bool // a timer runs
	idle     int  // the fewest idle connections there were since it was set
}

// opened is called when a connection was opened.
func (t *thinner) opened() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.watching && t.pool.ActiveCount() > keptIdle {
		t.watching, t.idle = true, 0
		time.AfterFunc(t.every, t.thin)
	}
}

// borrowed is called when an idle connection is taken.
func (t *thinner) borrowed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watching {
		t.idle = min(t.idle, t.pool.IdleCount())
	}
}

// thin closes as many connections as were idle all the time since it was last called, but for
// those that are kept.
func (t *thinner) thin() {
	for range t.unneeded() - keptIdle {
		t.closeOne()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.idle = t.pool.IdleCount()
	if t.watching = t.pool.ActiveCount() > keptIdle; t.watching {
		time.AfterFunc(t.every, t.thin)
	}
}

func (t *thinner) unneeded() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return min(t.idle, t.pool.IdleCount())
}

// thinning marks the context of a connection that is taken only to be closed.
type thinning struct{}

func (t *thinner) closeOne() {
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), thinning{}, true), time.Second)
	defer cancel()
	if conn, err := t.pool.GetContext(ctx); err == nil {
		store.Pool{Pool: t.pool}.Discard(conn)
		conn.Close()
	}
}

// borrow tries a connection before its next use.
func (t *thinner) borrow(ctx context.Context, conn redis.Conn, lastUsed time.Time) error {
	if ctx.Value(thinning{}) != nil {
		return nil
	}
	t.borrowed()
	return pingRested(ctx, conn, lastUsed)
}

// watch has the pool thinned out.
func watch(pool *redis.Pool, every time.Duration) *thinner {
	t, dial := &thinner{pool: pool, every: every}, pool.DialContext
	pool.DialContext = func(ctx context.Context) (redis.Conn, error) {
		conn, err := dial(ctx)
		if err == nil {
			t.opened()
		}
		return conn, err
	}
	pool.TestOnBorrowContext = t.borrow
	return t
}
