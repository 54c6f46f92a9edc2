package redispool

import (
	"context"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// KeptIdle is how many connections a pool keeps though nobody has needed as many for a while, KeptByNode how many the pool of a
// node of a cluster keeps, as there are several.
const KeptIdle, KeptByNode = 4, 1

// thinner closes what a pool has opened for a crowd that is gone.
type thinner struct {
	pool  *redis.Pool
	keep  int
	every time.Duration

	mu       sync.Mutex
	watching bool // a timer runs
	idle     int  // the fewest idle connections there were since it was set
}

// Thin has the pool, while it has more connections than it is to keep, close those regularly that
// were not needed since the last time.
func Thin(pool *redis.Pool, keep int, every time.Duration) *thinner {
	t := &thinner{pool: pool, keep: keep, every: every}
	dial, test := pool.DialContext, pool.TestOnBorrowContext
	pool.DialContext = func(ctx context.Context) (redis.Conn, error) {
		conn, err := dial(ctx)
		if err == nil {
			t.opened()
		}
		return conn, err
	}
	pool.TestOnBorrowContext = func(ctx context.Context, conn redis.Conn, lastUsed time.Time) error {
		t.borrowed()
		return test(ctx, conn, lastUsed)
	}
	return t
}

func (t *thinner) opened() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.watching {
		t.watch(0)
	}
}

func (t *thinner) borrowed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watching {
		t.idle = min(t.idle, t.pool.IdleCount())
	}
}

// watch sets the timer if there are more connections than are kept. mu must be held.
func (t *thinner) watch(idle int) {
	t.idle = idle
	if t.watching = t.pool.ActiveCount() > t.keep; t.watching {
		time.AfterFunc(t.every, t.thin)
	}
}

// thin closes as many connections as were idle all the time since it was last called, while there are
// more than are kept.
func (t *thinner) thin() {
	t.mu.Lock()
	unneeded := min(t.idle, t.pool.IdleCount())
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for range min(unneeded, t.pool.ActiveCount()-t.keep) {
		if conn, err := t.pool.GetContext(&borrow{Context: ctx}); err == nil {
			spoil(conn)
			conn.Close()
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watch(t.pool.IdleCount())
}
