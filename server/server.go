// Package server is the daemon's work: it moves the jobs that fall due from the
// job pool into their topics' ready queues. Any number of servers may work on one
// Redis; no job enters a queue twice.
//
//	pool := client.NewPool(client.PoolOptions{Addr: "127.0.0.1:6379"})
//	defer pool.Close()
//	err := server.New(pool, server.Options{}).Run(ctx)
package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
)

// Logger is told what happened, one message a line. It must be safe for
// concurrent use. *logger.Logger is one.
type Logger interface {
	Info(message string)
	Error(message string)
}

// Options of a Server. The zero value works.
type Options struct {
	// Interval is the time between two passes when nothing falls due in
	// between. 0 means 1 s.
	Interval time.Duration
	// Prefix begins the name of every key. Empty means "delayer:".
	Prefix string
	// StallBudget is how long one batch may keep Redis from its other users;
	// the size of the batches adapts to it. 0 means 2 ms.
	StallBudget time.Duration
	// Logger is told of moves and failures. nil means nobody is.
	Logger Logger
}

const (
	defaultInterval    = time.Second
	defaultStallBudget = 2 * time.Millisecond

	// minWait is the shortest time between two passes, so that a pass takes
	// what falls due together together.
	minWait = time.Millisecond
	// stopWait is how long Run waits for the batch in hand after its context
	// is done.
	stopWait = 4 * time.Second
	// batchWait bounds one batch on a pool without timeouts of its own.
	batchWait = 10 * time.Second
)

// ErrRefused is in the error of Check when trying again can't help: wrong
// password, no permission, no such database, a Redis too old.
var ErrRefused = errors.New("redis refuses")

// Server moves due jobs. Make one with New.
type Server struct {
	store    *store.Store
	interval time.Duration
	log      Logger
	outages  *outages
	batch    batchSize
	blocked  blockedFront

	// beforeMove, if set, is called between a look-up and its moves (tests).
	beforeMove func()
}

// New makes a Server that works on the pool's Redis. The pool stays the caller's.
func New(pool *redis.Pool, o Options) *Server {
	if o.Interval <= 0 {
		o.Interval = defaultInterval
	}
	if o.Prefix == "" {
		o.Prefix = store.DefaultPrefix
	}
	if o.StallBudget <= 0 {
		o.StallBudget = defaultStallBudget
	}
	if o.Logger == nil {
		o.Logger = silent{}
	}
	return &Server{
		store:    store.New(store.Pool{Pool: pool}, o.Prefix),
		interval: o.Interval,
		log:      o.Logger,
		outages:  newOutages(o.Logger.Error),
		// An exchange has Redis do two things of that size one after the
		// other, the moves and the next look-up. The last quarter is for what
		// a script can't see: the reading of the call, the writing of the answer.
		batch: newBatchSize(o.StallBudget * 3 / 8),
	}
}

type silent struct{}

func (silent) Info(string)  {}
func (silent) Error(string) {}

// Check asks Redis once whether the server could work; it changes nothing. Its
// error wraps ErrRefused when trying again can't help; with any other error,
// such as an unreachable Redis, Run keeps trying.
func (s *Server) Check(ctx context.Context) error {
	err := s.rehearse(ctx)
	if store.Refused(err) {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}

// rehearse does on a job that does not exist what a pass does.
func (s *Server) rehearse(ctx context.Context) error {
	if _, err := s.store.Due(ctx, store.Look{}); err != nil {
		return err
	}
	nobody := store.IDs{[]byte(rand.Text())}
	moved, err := s.store.Move(ctx, []store.Batch{{Topic: rand.Text(), IDs: nobody}})
	if err != nil {
		return err
	}
	if err := moved[0].Err; err != nil {
		return err
	}
	_, err = s.store.Drop(ctx, nobody)
	return err
}

// Run moves jobs until ctx is done and returns nil: a cancelled context is how
// one stops it. The batch in hand is finished first; if Redis does not answer
// within 4 s it is left to Redis, which does it wholly or not at all.
//
// The first pass runs at once. After each pass Run sleeps until the next job
// falls due, but no longer than the interval. Our clients say so when they push
// a job that is to be the next; one pushed by another client is found with the next
// pass. Passes never overlap. A pass works through all that is due, in batches whose size follows the
// stall budget; each batch is one look-up and one atomic script per topic.
//
// What was due when the pass began is moved oldest first. If that takes more than one batch, as after an
// outage, what falls due meanwhile does not wait for the end of it, but has up to half of
// each following batch.
//
// Redis being away is one line in the log, one when it is back, and a
// reminder each minute. Run calls must not overlap.
func (s *Server) Run(ctx context.Context) error {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(stopWait, cancel) })
	defer stop()

	earlier := make(chan time.Time, 1)
	go s.listen(ctx, earlier)

	next := time.Now()
	for {
		if !sleepUntil(ctx, next, earlier) {
			return nil
		}
		started := time.Now()
		result, err := s.pass(ctx, work)
		if isCut(err) {
			// A connection that Redis or the network closed while it
			// rested is no outage: another may do.
			result, err = s.pass(ctx, work)
		}
		if work.Err() != nil {
			return nil
		}
		s.outages.report("redis", "Redis does not work for us", err)
		next = time.Now().Add(s.wait(result, err, time.Since(started)))
	}
}

// wait is how long to sleep after a pass that took so long. After one that
// failed it is not less because another job falls due: that would fail as well.
func (s *Server) wait(r result, err error, took time.Duration) time.Duration {
	wait := s.interval - took
	if err == nil && r.Next >= 0 {
		wait = min(wait, r.Next)
	}
	return max(wait, minWait)
}

// sleepUntil sleeps until next, or an earlier time that it is told of, but then
// for minWait at least. It reports false when ctx is done.
func sleepUntil(ctx context.Context, next time.Time, earlier <-chan time.Time) bool {
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case t := <-earlier:
			if t.Before(next) {
				next = t
				timer.Reset(max(time.Until(next), minWait))
			}
		}
	}
}
