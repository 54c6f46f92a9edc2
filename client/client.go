package client

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
)

// Client pushes and takes jobs. Make one with Open or New, and share it: it is
// safe for concurrent use.
type Client struct {
	store     *store.Store
	ownPool   *redis.Pool // closed with the Client; nil if the caller's
	onExpired func(ids []string)
	expired   atomic.Int64

	idle   chan func() // to goroutines that have nothing to do
	idling atomic.Int32

	pushes pushes
	takes  takes
	waits  waits

	closing   context.Context // done when Close is called
	close     context.CancelFunc
	abandoned context.Context // done when Close has waited long enough
	abandon   context.CancelFunc

	mu      sync.Mutex     // orders begin and Close
	running sync.WaitGroup // what Close waits for
}

// Option changes what New, Open and OpenPool make.
type Option func(*options)

type options struct {
	prefix    string
	onExpired func(ids []string)
}

// WithPrefix sets what the name of every key begins with. Without it that is
// "delayer:", as in the original. It must be the same as the server's.
func WithPrefix(prefix string) Option {
	return func(o *options) { o.prefix = prefix }
}

// WithExpired sets a function that is told the IDs met in a ready queue whose
// jobs are gone: their lifetime ended before anybody took them, or they were
// removed from the midst of a very long queue. It must be safe for concurrent use.
func WithExpired(f func(ids []string)) Option {
	return func(o *options) { o.onExpired = f }
}

// New makes a Client on a pool of the caller's, who closes it after the Client.
//
// The pool should have Wait set and read and write timeouts (NewPool's has).
// BPop waits on connections of its own, dialled with the pool's Dial but not counted among
// its MaxActive.
func New(pool *redis.Pool, opts ...Option) *Client {
	o := options{prefix: store.DefaultPrefix}
	for _, opt := range opts {
		opt(&o)
	}
	c := &Client{store: store.New(store.Pool{Pool: pool}, o.prefix), onExpired: o.onExpired}
	c.closing, c.close = context.WithCancel(context.Background())
	c.abandoned, c.abandon = context.WithCancel(context.Background())
	c.pushes.client, c.takes.client, c.waits.client = c, c, c
	c.idle = make(chan func())
	c.pushes.ids = map[string]bool{}
	return c
}

// Open makes a Client on the Redis that the URL names, as ParseURL reads it.
// Redis is not contacted before the first call, so a Client may be made while Redis is away.
func Open(url string, opts ...Option) (*Client, error) {
	o, err := ParseURL(url)
	if err != nil {
		return nil, err
	}
	return OpenPool(o, opts...), nil
}

// OpenPool makes a Client on a pool of its own, which Close closes.
func OpenPool(p PoolOptions, opts ...Option) *Client {
	pool := NewPool(p)
	c := New(pool, opts...)
	c.ownPool = pool
	return c
}

// closeWait bounds how long Close waits for jobs to be put back.
const closeWait = 3 * time.Second

// Close ends the waiting BPop calls with ErrClosed, and waits for the other
// calls under way, and for jobs being put back whose callers have gone; for 3 s
// at most, if Redis does not answer. Calls after that fail with ErrClosed.
func (c *Client) Close() error {
	c.mu.Lock()
	c.close()
	c.mu.Unlock()
	c.waits.close()

	done := make(chan error, 1)
	go func() {
		c.running.Wait() // a pool that is closed under a call may panic
		done <- c.closePool()
	}()
	defer c.abandon()
	select {
	case err := <-done:
		return err
	case <-time.After(closeWait):
		return fmt.Errorf("delayer: close: redis did not answer within %v: jobs taken for cancelled calls may be lost", closeWait)
	}
}

func (c *Client) closePool() error {
	if c.ownPool == nil {
		return nil
	}
	return c.ownPool.Close()
}

// begin is how everything starts that Close has to wait for; it ends with
// running.Done. It fails when the Client is closed or ctx is done.
func (c *Client) begin(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing.Err() != nil {
		return ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.running.Add(1)
	return nil
}

// Stats are counters since the Client was made.
type Stats struct {
	// Expired is how many IDs were met in ready queues whose jobs were gone;
	// see WithExpired.
	Expired int64
}

// Stats reads the counters.
func (c *Client) Stats() Stats { return Stats{Expired: c.expired.Load()} }

func (c *Client) met(expired []string) {
	if len(expired) == 0 {
		return
	}
	c.expired.Add(int64(len(expired)))
	if c.onExpired != nil {
		c.onExpired(expired)
	}
}

// failed puts the operation in front of an error.
func failed(operation, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("delayer: %s %q: %w", operation, name, err)
}
