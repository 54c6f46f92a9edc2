package client

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/batch"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/wait"
)

// Client pushes and takes jobs. Make one with Open or New and share it: it is safe for concurrent use.
type Client struct {
	fleet        *fleet.Fleet
	calls        calls
	takers       *fleet.Takers
	own          *Redis // closed with the Client; nil if the caller's
	logger       *slog.Logger
	hooks        allHooks
	buryFailures redisconn.Reminder

	closing   context.Context // done when Close is called
	close     context.CancelFunc
	abandoned context.Context // done when Close has waited long enough
	abandon   context.CancelFunc

	mu      sync.Mutex     // orders begin and Close
	running sync.WaitGroup // what Close waits for
}

// Option configures a Client made by New, Open or OpenPool.
type Option func(*options)

type options struct {
	prefix string
	logger *slog.Logger
	hooks  allHooks
}

// WithPrefix sets what the name of every key begins with. The default, also for an empty prefix, is "delayer:", as
// in the original. It must be the same as the server's.
func WithPrefix(prefix string) Option {
	return func(o *options) { o.prefix = prefix }
}

// WithLogger sets the logger for what would otherwise go unnoticed: a BPop that polls because this Redis user may not
// subscribe to a channel, once; a job that cannot become a dead letter, once a minute for each topic; while calls wait, once a minute, that jobs have
// been due for 2 s or longer though no server runs; a panic of a hook. The default is slog.Default.
func WithLogger(l *slog.Logger) Option {
	return func(o *options) { o.logger = l }
}

// New makes a Client on a Redis that the caller closes after the Client. A wrong option is an error (ErrInvalid). While
// BPop waits, the Client has one more connection, in a cluster for each partition, which does not count in
// PoolOptions.MaxActive.
func New(r *Redis, opts ...Option) (*Client, error) {
	var set options
	for _, opt := range opts {
		if opt == nil {
			return nil, failed("open", "", invalid("option", "it is nil"))
		}
		opt(&set)
	}
	jobs, err := fleet.Open((*fleet.Redis)(r), set.prefix)
	if err != nil {
		return nil, failed("open", "", fmt.Errorf("%w %w", ErrInvalid, err))
	}
	c := &Client{fleet: jobs, hooks: set.hooks, logger: cmp.Or(set.logger, slog.Default())}
	c.closing, c.close = context.WithCancel(context.Background())
	c.abandoned, c.abandon = context.WithCancel(context.Background())
	o := &batch.Owner{Running: &c.running, Closed: ErrClosed}
	c.calls = newCalls(o)
	c.takers = jobs.Takers(c.closing, o, wait.Hooks{Logger: c.logger, Popped: c.popped, Lost: c.lost})
	for _, s := range jobs.Stores {
		s.OnReplaced(c.takers.Renew)
		s.EndWith(c.abandoned, ErrClosed)
	}
	return c, nil
}

// Open makes a Client for the Redis at a URL, see ParseURL, with connections of its own, which Close closes. It does
// not contact Redis, so a Client can be made while Redis is unreachable. A wrong option is an error (ErrInvalid).
func Open(url string, opts ...Option) (*Client, error) {
	o, err := ParseURL(url)
	if err != nil {
		return nil, err
	}
	return OpenPool(o, opts...)
}

// OpenPool is Open for options in place of a URL.
func OpenPool(p PoolOptions, opts ...Option) (*Client, error) {
	r, err := Connect(p)
	if err != nil {
		return nil, err
	}
	c, err := New(r, opts...)
	if err != nil {
		r.Close()
		return nil, err
	}
	c.own = r
	return c, nil
}

const closeWait = 3 * time.Second

// Close ends waiting calls with ErrClosed and waits for the other calls in progress, up to 3 s: if Redis is silent
// or the network slow, its error says so. Calls that were not sent by then, and calls after Close, return
// ErrClosed.
func (c *Client) Close() error {
	if err := c.check(); err != nil {
		return failed("close", "", err)
	}
	c.mu.Lock()
	c.close()
	c.mu.Unlock()

	done := make(chan error, 1)
	go func() {
		c.running.Wait() // a pool that is closed under a call may panic
		done <- c.own.Close()
	}()
	defer c.abandon()
	select {
	case err := <-done:
		return err
	case <-time.After(closeWait):
		return fmt.Errorf("delayer: close: calls were still under way after %v: what became of them is unknown", closeWait)
	}
}

// begin starts a call that Close must wait for; running.Done ends it. It fails if the Client is closed, or if
// ctx is done or nil.
func (c *Client) begin(ctx context.Context) error {
	if err := c.check(); err != nil {
		return err
	}
	if ctx == nil {
		return invalid("ctx", "it is nil")
	}
	err := ctx.Err()
	c.mu.Lock()
	if c.closing.Err() != nil {
		err = ErrClosed
	} else if err == nil {
		c.running.Add(1)
	}
	c.mu.Unlock()
	return err
}

// call makes a call that Close waits for, unless an argument is wrong. The error begins with the operation and the
// name of what it was called for, if that has one.
func (c *Client) call(ctx context.Context, operation, name string, wrong error, do func() error) error {
	err := wrong
	if err == nil {
		err = c.begin(ctx)
	}
	if err == nil {
		defer c.running.Done()
		err = do()
	}
	if err == nil {
		return nil
	}
	return failed(operation, name, err)
}

func (c *Client) check() error {
	if c == nil || c.closing == nil {
		return invalid("client", "it was not made with Open, OpenPool or New")
	}
	return nil
}

// Ping checks that Redis responds, on a connection of the pool; in a cluster, that each node with partitions does.
func (c *Client) Ping(ctx context.Context) error {
	return c.call(ctx, "ping", "", nil, func() error {
		servers, err := c.fleet.Servers(ctx)
		for _, s := range servers {
			if err == nil {
				err = s.Store.Ping(ctx)
			}
		}
		return err
	})
}

// failed adds the operation, and what it was called for if that has a name, to an error.
func failed(operation, name string, err error) error {
	if err == nil {
		return nil
	}
	if name != "" {
		operation += " " + store.Quote(name)
	}
	return fmt.Errorf("delayer: %s: %w", operation, err)
}
