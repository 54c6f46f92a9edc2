// Package server is the daemon's work: it moves the jobs that fall due from the
// job pool into their topics' ready queues. Any number of servers may work on one
// Redis; no job enters a queue twice.
//
//	pool := client.NewPool(client.PoolOptions{Addr: "127.0.0.1:6379"})
//	defer pool.Close()
//	err := server.New(pool, server.Options{}).Run(ctx)
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
)

// Options of a Server. The zero value works. An Interval or a DeadMaxAge above 0 and below a millisecond
// lacks its unit, and is the error of Run, Pass and Check.
type Options struct {
	// Interval is the time between two passes when nothing falls due in
	// between. 0 means 1 s; more than 55 s count as 55 s, and, as long as Redis does not
	// let us subscribe to what is pushed, more than 1 s as 1 s.
	Interval time.Duration
	// Prefix begins the name of every key. Empty means "delayer:".
	Prefix string
	// Partitions is how many parts the jobs are divided into, as by client.WithPartitions. 0 means 1. With
	// several, what the log says of one has the attribute "partition", its number.
	Partitions int
	// PartitionsBefore is how many they were, as by client.WithPartitionsBefore. 0 means that they were never another number.
	PartitionsBefore int
	// StallBudget is how long one batch may keep Redis from its other users;
	// the size of the batches adapts to it. 0 means 2 ms.
	StallBudget time.Duration
	// DeadMaxAge is for how long dead letters are kept. 0 means 14 days, less than 0 for ever.
	DeadMaxAge time.Duration
	// DeadMax is how many dead letters a topic has at most; the oldest are dropped. 0 means
	// any number.
	DeadMax int
	// Logger is told of moves at slog.LevelInfo, of failures at slog.LevelError, and of the end of a failure at
	// slog.LevelInfo + 2. nil means nobody is.
	Logger *slog.Logger
	// Observer is told of moves, passes and their times. nil means nobody is.
	Observer Observer
	// Version is what the server says it is in its entry among the servers in Redis.
	Version string
}

// check refuses what no server can be made of.
func (o Options) check(pool *redis.Pool) error {
	if pool == nil {
		return errors.New("server: pool is nil; client.NewPool makes one")
	}
	return cmp.Or(
		o.layout().Check(cmp.Or(o.Prefix, store.DefaultPrefix)),
		checkUnit("Interval", o.Interval), checkUnit("DeadMaxAge", o.DeadMaxAge),
	)
}

func (o Options) layout() store.Layout {
	return store.Layout{Partitions: o.Partitions, Before: o.PartitionsBefore}
}

// checkUnit refuses a time that lacks its unit.
func checkUnit(option string, d time.Duration) error {
	if err := store.CheckUnit(d); err != nil {
		return fmt.Errorf("server: %s %w", option, err)
	}
	return nil
}

// withDefaults are the options with what 0 stands for.
func (o Options) withDefaults() Options {
	o.Interval = min(cmp.Or(max(o.Interval, 0), time.Second), longestSleep)
	o.Prefix = cmp.Or(o.Prefix, store.DefaultPrefix)
	o.StallBudget = cmp.Or(max(o.StallBudget, 0), 2*time.Millisecond)
	o.DeadMaxAge = cmp.Or(o.DeadMaxAge, 14*24*time.Hour)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// Server moves due jobs. Make one with New.
type Server struct {
	options    Options
	wrong      error // what it was made of
	partitions store.Partitions
	movers     []*mover // one of each
	log        *slog.Logger
	outages    *outages

	untagged  untagged
	observers []Observer // heart is one of them
	heart     heart      // without an ID while it doesn't run

	test testHooks
}

// testHooks are for tests, which alone set them.
type testHooks struct {
	beforeMove func()        // is called when due jobs were found and are about to be moved
	moveApart  bool          // the look-up moves no jobs itself
	askAgain   time.Duration // replaces the constant, if it is not 0
}

// New makes a Server that works on the pool's Redis. The pool stays the caller's. If the pool is nil, or an
// option is wrong, that is the error of Run, Pass and Check.
func New(pool *redis.Pool, o Options) *Server {
	wrong := o.check(pool)
	o = o.withDefaults()
	s := &Server{
		options: o,
		wrong:   wrong,
		log:     o.Logger,
		outages: newOutages(o.Logger),
	}
	layout := o.layout()
	if wrong != nil {
		layout = store.Layout{} // it may be what is wrong
	}
	s.partitions = layout.Open(pool, o.Prefix)
	for i, partition := range s.partitions {
		s.movers = append(s.movers, newMover(s, i, partition))
	}
	if len(s.movers) == 1 {
		s.movers[0].nameless()
	}
	s.observers = []Observer{&s.heart}
	if o.Observer != nil {
		s.observers = append(s.observers, o.Observer)
	}
	return s
}

// usable fails if the server, or ctx, is nothing to work with.
func (s *Server) usable(ctx context.Context) error {
	switch {
	case s == nil || s.movers == nil:
		return errors.New("server: it was not made with New")
	case ctx == nil:
		return errors.New("server: ctx is nil")
	}
	return s.wrong
}

// Pass does once, for a caller who says when, what Run does all the time: it moves what is due
// now, drops the dead letters that are not kept, and returns. When ctx is done it finishes the
// batch in hand and fails with ctx's error. What does not work for some jobs only is said in the
// log, as by Run; an error is what stopped the pass. It must not overlap with Run or another Pass.
// Of several partitions each has its turn, whatever becomes of the others, and an error names its partition.
func (s *Server) Pass(ctx context.Context) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	work := context.WithoutCancel(ctx)
	var errs []error
	for _, m := range s.movers {
		if err := m.once(ctx, work); err != nil {
			errs = append(errs, m.named(err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return cmp.Or(errors.Join(errs...), ctx.Err())
}

// Run moves jobs until ctx is done and returns nil: a cancelled context is how
// one stops it. The batch in hand is finished first; if Redis does not answer
// within 4 s it is left to Redis, which does it wholly or not at all.
//
// The first pass runs at once. After each pass Run sleeps until the next job
// falls due, but no longer than the interval. Our clients say so when they push
// a job that is to be the next; one pushed by another client is found with the
// next pass. Passes never overlap. A pass works through all that is due, in
// batches whose size follows the stall budget.
//
// What was due when the pass began is moved oldest first. If that takes more
// than one batch, as after an outage, what falls due meanwhile does not wait for
// the end of it, but has up to half of each following batch.
//
// The jobs of a topic whose ready queue can't take them are tried again every 5 s,
// or less often if there are so many that Redis's other users would notice.
//
// Whatever does not work is one line in the log when that begins, an error; a
// reminder each minute; and one line when it is over, an info. Run calls must
// not overlap.
//
// While it runs, the server has an entry in the hash "<prefix>servers": what it is and
// what it has done. It is written once a second at most, after a pass, and deleted at
// the stop. Nothing depends on it: where it can't be written, that is one line in the log.
func (s *Server) Run(ctx context.Context) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	s.run(ctx)
	return nil
}
