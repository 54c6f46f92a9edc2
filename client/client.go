package client

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mix-basic/delayer/internal/batch"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/wait"
)

// Client pushes and takes jobs. Make one with Open or New, and share it: it is
// safe for concurrent use.
type Client struct {
	fleet        *fleet.Fleet
	previous     *fleet.Previous // nil if there is no previous layout, in whose partitions jobs may be left
	calls        calls
	turn         atomic.Uint64 // which of them a batch begins with
	dispatcher   *wait.Dispatcher
	own          Redis // closed with the Client; nil if the caller's
	logger       *slog.Logger
	onStale      func(ids []string)
	stale        atomic.Int64
	buryFailures buryFailures
	lost         atomic.Int64
	unitWarned   atomic.Bool // that a unit may be missing
	shunned      shunned     // nodes that no IDs are made for
	setupErr     error       // what it was made with

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
	prefix  string
	layout  fleet.Layout
	onStale func(ids []string)
	logger  *slog.Logger
}

// WithPrefix sets what the name of every key begins with. Without it, or with
// an empty one, that is "delayer:", as in the original. It must be the same as
// the server's.
func WithPrefix(prefix string) Option {
	return func(o *options) { o.prefix = prefix }
}

// WithPartitions divides the jobs into n parts, 1 to 1,024, whose keys begin with the prefix and a number in braces,
// "delayer:{3}:". Without it, or with 0, there is one, with the original's keys. A job belongs to the partition
// CRC16(tag) mod n, where tag is what stands between the first { of its ID and the next }, or else the whole ID: jobs whose
// IDs have a tag in common are kept together. A topic is served from all partitions, and its order is that of each
// of them. n must be the same as the server's.
func WithPartitions(n int) Option {
	return func(o *options) { o.layout.Partitions = n }
}

// WithPreviousPartitions says how many partitions there were before there were as many as WithPartitions says, 1 to 1,024.
// Jobs that are left there are found as well: they are popped, reserved, got and removed as all others are, while jobs are pushed
// to the new partitions only. So one program can be restarted after the other, and "delayer migrate" moves what is
// left. 0 means that there never was another number.
func WithPreviousPartitions(n int) Option {
	return func(o *options) { o.layout.Previous = n }
}

// WithStaleHook sets a function that is told the IDs met in a ready queue whose jobs
// are gone: their lifetime ended before anybody took them, they were removed from
// the midst of a very long queue, or, pushed again while they stood in one, taken by
// another of their entries. It must be safe for concurrent use, return soon, and not call the
// Client: it is called while a pop is under way. If it panics the Client's logger says so, and
// the jobs are delivered all the same.
func WithStaleHook(f func(ids []string)) Option {
	return func(o *options) { o.onStale = f }
}

// WithLogger sets where the Client says what nobody would notice otherwise: once, that a delay or a
// timeout may lack its unit (a bare 30 is 30 ns); once, that BPop has to poll because this Redis
// user may not subscribe to a channel; once a minute and topic, that a job can't be made a dead letter;
// and that WithStaleHook's function has panicked. Without it that is slog.Default.
func WithLogger(l *slog.Logger) Option {
	return func(o *options) { o.logger = l }
}

// New makes a Client on a Redis of the caller's, who closes it after the Client: a *redis.Pool, or what Connect makes.
//
// A pool should have Wait set and read and write timeouts (NewPool's has). While
// BPop waits, the Client has one more connection (to each node of a cluster), dialled with the pool's Dial but not
// counted among its MaxActive.
//
// A Redis or an option that is nil is ErrInvalid of each call.
func New(r Redis, opts ...Option) *Client {
	var set options
	var wrong error
	for _, opt := range opts {
		if opt == nil {
			wrong = invalid("option", "it is nil")
		} else {
			opt(&set)
		}
	}
	if err := redisconn.CheckRedis(r); err != nil {
		wrong = invalid("redis", err.Error())
	}
	c := &Client{onStale: set.onStale, logger: cmp.Or(set.logger, slog.Default()), setupErr: wrong}
	c.closing, c.close = context.WithCancel(context.Background())
	c.abandoned, c.abandon = context.WithCancel(context.Background())
	prefix := cmp.Or(set.prefix, store.DefaultPrefix)
	if err := set.layout.Check(prefix); err != nil {
		c.setupErr, set.layout = cmp.Or(wrong, fmt.Errorf("%w %w", ErrInvalid, err)), fleet.Layout{}
	}
	o := &batch.Owner{Running: &c.running, Abandoned: c.abandoned, Closed: ErrClosed}
	c.fleet, c.calls = set.layout.Open(r, prefix), newCalls(o)
	c.previous = c.fleet.Previous(o)
	c.dispatcher = wait.New(c.closing, o, wait.Hooks{Logger: c.logger, Popped: c.popped, Lost: func(jobs int) { c.lost.Add(int64(jobs)) }}, c.fleet.Stores...)
	for _, s := range c.fleet.Stores {
		s.OnReplaced(c.dispatcher.Renew)
	}
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

// OpenPool makes a Client on connections of its own, which Close closes.
func OpenPool(p PoolOptions, opts ...Option) *Client {
	r := p.connect()
	c := New(r, append([]Option{WithPartitions(p.Partitions), WithPreviousPartitions(p.PreviousPartitions)}, opts...)...)
	c.own = r
	return c
}

// closeWait bounds how long Close waits for the calls under way.
const closeWait = 3 * time.Second

// Close ends the waiting BPop calls with ErrClosed, and waits for the other calls under way,
// for 3 s at most: if Redis is silent, or the network slow, its error says so. Calls that
// have not been sent by then, and calls after Close, fail with ErrClosed.
func (c *Client) Close() error {
	if err := c.check(); err != nil {
		return failed("close", "", err)
	}
	c.mu.Lock()
	c.close()
	c.mu.Unlock()
	c.dispatcher.Close()

	done := make(chan error, 1)
	go func() {
		c.running.Wait() // a pool that is closed under a call may panic
		done <- c.closeOwn()
	}()
	defer c.abandon()
	select {
	case err := <-done:
		return err
	case <-time.After(closeWait):
		return fmt.Errorf("delayer: close: calls were still under way after %v: what became of them is unknown", closeWait)
	}
}

func (c *Client) closeOwn() error {
	if c.own == nil {
		return nil
	}
	return c.own.Close()
}

// begin is how everything starts that Close has to wait for; it ends with
// running.Done. It fails when the Client is closed or can't be used, or ctx is done or nil.
func (c *Client) begin(ctx context.Context) error {
	if err := c.check(); err != nil {
		return err
	}
	if ctx == nil {
		return invalid("ctx", "it is nil")
	}
	if c.setupErr != nil {
		return c.setupErr
	}
	if err := c.enlist(ctx); err != nil {
		return err
	}
	if len(c.fleet.Stores) > 1 {
		c.fleet.Locate(ctx) // so that calls are grouped by nodes from the first one on; where that fails the call says why
	}
	return nil
}

// enlist has Close wait for what is begun.
func (c *Client) enlist(ctx context.Context) error {
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

// check refuses what is no Client.
func (c *Client) check() error {
	if c == nil || c.closing == nil {
		return invalid("client", "it was not made with Open, OpenPool or New")
	}
	return nil
}

// Ping asks Redis for a sign of life, on a connection of the pool; of several nodes, each.
func (c *Client) Ping(ctx context.Context) error {
	if err := c.begin(ctx); err != nil {
		return failed("ping", "", err)
	}
	defer c.running.Done()
	if err := c.fleet.Locate(ctx); err != nil {
		return failed("ping", "", err)
	}
	for _, s := range store.OneOfEachNode(c.fleet.Stores) {
		if err := s.Ping(ctx); err != nil {
			return failed("ping", "", err)
		}
	}
	return nil
}

// Counters are what a Client has counted since it was made.
type Counters struct {
	// Stale is how many IDs were met in ready queues whose jobs were gone; see
	// WithStaleHook.
	Stale int64
	// Lost is how many jobs may have been lost at most, as the answers did not
	// arrive that would have brought them; see ErrLost.
	Lost int64
}

// Counters reads the counters.
func (c *Client) Counters() Counters {
	if c == nil {
		return Counters{}
	}
	return Counters{Stale: c.stale.Load(), Lost: c.lost.Load()}
}

// failed puts the operation in front of an error, and what it was called for, if
// that has a name.
func failed(operation, name string, err error) error {
	if err == nil {
		return nil
	}
	if name != "" {
		operation += " " + store.Quote(name)
	}
	return fmt.Errorf("delayer: %s: %w", operation, err)
}
