// Package server does the daemon's work: it moves due jobs from the job pool into the ready queues of their topics, fires
// schedules, and keeps paused topics, dead letters and its own heartbeat in order. Any number of servers may work on one
// Redis: no job enters a ready queue twice.
//
// Jobs are never early, by Redis's clock, and a few milliseconds late on an idle Redis: a server sleeps until the next job falls
// due, and pushes of package client announce a job that is due before that. Moves go in batches that block Redis for about 2 ms.
//
//	redis, err := client.Connect(client.PoolOptions{Addr: "127.0.0.1:6379"})
//	defer redis.Close()
//	s, err := server.New(redis, server.Options{})
//	err = s.Run(ctx)
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
)

// Options of a Server. The zero value works.
type Options struct {
	// Interval is the longest time between two passes. 0 means 1 s, and more than 55 s means 55 s. Without permission to
	// subscribe to announcements of pushes, more than 1 s means 1 s.
	Interval time.Duration
	// Prefix is what the name of every key begins with. Empty means "delayer:".
	Prefix string
	// StallBudget is how long one batch may block Redis for its other users. Batches adapt their size to it. 0 means 2 ms.
	StallBudget time.Duration
	// DeadMaxAge is how long dead letters are kept. 0 means 14 days, a negative value for ever.
	DeadMaxAge time.Duration
	// DeadMax is the most dead letters of a topic; the oldest are dropped. 0 means no bound.
	DeadMax int
	// Logger gets moves at slog.LevelInfo, failures at slog.LevelError, and the end of a failure at slog.LevelInfo + 2. nil
	// means slog.Default().
	Logger *slog.Logger
	// Hooks are called for moves, passes and their times.
	Hooks Hooks
	// Version is shown in the server's entry in Redis.
	Version string
}

func checkUnit(option string, d time.Duration) error {
	if err := store.CheckUnit(d); err != nil {
		return fmt.Errorf("server: %s %w", option, err)
	}
	return nil
}

func (o Options) withDefaults() Options {
	o.Interval = min(cmp.Or(max(o.Interval, 0), time.Second), longestSleep)
	o.StallBudget = cmp.Or(max(o.StallBudget, 0), 2*time.Millisecond)
	o.DeadMaxAge = cmp.Or(o.DeadMaxAge, 14*24*time.Hour)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	return o
}

// Server moves due jobs. Make one with New.
type Server struct {
	options Options
	fleet   *fleet.Fleet
	movers  []*mover // one for each store of the fleet
	log     *slog.Logger
	outages *outages

	dead      atomic.Pointer[deadLimits]
	untagged  redisconn.Reminder
	heartbeat heartbeat // without an ID unless the server runs

	test testHooks
}

// testHooks are set by tests only.
type testHooks struct {
	beforeMove func()        // called when due jobs were read and are about to be moved
	moveApart  bool          // due.lua moves no jobs itself
	askAgain   time.Duration // replaces the constant unless 0
}

// New makes a Server on that Redis, which the caller closes after Run. A wrong option is an error. So is an Interval or DeadMaxAge
// above 0 and below a millisecond: it was probably given without a unit.
func New(r *client.Redis, o Options) (*Server, error) {
	if err := cmp.Or(checkUnit("Interval", o.Interval), checkUnit("DeadMaxAge", o.DeadMaxAge)); err != nil {
		return nil, err
	}
	f, err := fleet.Open((*fleet.Redis)(r), o.Prefix)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	o = o.withDefaults()
	s := &Server{options: o, fleet: f, log: o.Logger, outages: newOutages(o.Logger)}
	s.SetDeadLimits(o.DeadMaxAge, o.DeadMax)
	for i, jobs := range s.fleet.Stores {
		log, outages := s.fleet.Logger(i, s.log), s.outages
		if log != s.log {
			outages = newOutages(log)
		}
		s.movers = append(s.movers, newMover(s, i, jobs, log, outages))
	}
	return s, nil
}

// deadLimits bound the dead letters of a topic.
type deadLimits struct {
	age  time.Duration
	most int
}

// SetDeadLimits replaces Options.DeadMaxAge and Options.DeadMax, in the same units, also while the Server runs.
func (s *Server) SetDeadLimits(maxAge time.Duration, most int) {
	l := &deadLimits{cmp.Or(maxAge, 14*24*time.Hour), max(most, 0)}
	if maxAge < 0 {
		l.age = never
	}
	s.dead.Store(l)
}

// usable returns why the server cannot work with ctx, or nil.
func (s *Server) usable(ctx context.Context) error {
	switch {
	case s == nil || s.movers == nil:
		return errors.New("server: it was not made with New")
	case ctx == nil:
		return errors.New("server: ctx is nil")
	}
	return nil
}

// Pass does once what Run does all the time: it moves all due jobs, drops dead letters that are too old, and returns. When ctx
// is done it finishes the current batch and returns ctx's error. Other errors say what stopped the pass; failures of single
// jobs or topics are logged, as in Run. Pass must not overlap with Run or another Pass.
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

// Run moves jobs until ctx is done, and then returns nil: cancelling ctx is how to stop it. It finishes the current batch
// first. If Redis does not respond within 4 s, Run returns without the response; the batch is atomic.
//
// The first pass runs at once. After each pass Run sleeps until the next job falls due, but at most for the interval. Our
// clients announce a job that falls due before all others; jobs of other clients are found by the next pass. Passes never
// overlap. A pass works through everything that is due, in batches whose size follows the stall budget.
//
// What was due when the pass began is moved oldest first. If that takes more than one batch, as after an outage, jobs that fall
// due meanwhile do not wait for the end of the backlog: they get up to half of each following batch.
//
// Jobs whose ready queue is broken or not writable are tried again every 5 s, or less often if there are very many.
//
// A failure is logged once as an error when it begins, once a minute while it lasts, and once as an info when it is over. Run
// calls must not overlap.
//
// While it runs, the server keeps an entry in the hash "<prefix>servers" with what it is and what it has done. It is written
// after a pass, at most once a second, and deleted at the stop. If it cannot be written, that is logged, and jobs are moved all
// the same.
func (s *Server) Run(ctx context.Context) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	s.run(ctx)
	return nil
}
