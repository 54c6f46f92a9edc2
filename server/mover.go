package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

const (
	// minWait is the shortest time between two passes. Most jobs are due at whole
	// milliseconds, and a pass takes all of one together whatever this is.
	minWait = 500 * time.Microsecond
	// stopWait is how long run waits for the batch in hand after its context
	// is done.
	stopWait = 4 * time.Second
	// atOnce is up to how many due jobs the look-up moves itself, which spares a round trip.
	atOnce = 64
)

const (
	// longestSleep is how long a mover sleeps at most, whatever the interval: a push
	// tells only of jobs that fall due before the pass after that.
	longestSleep = store.AnnouncedWithin - 5*time.Second
	// polledSleep is the same of one that misses what pushes tell.
	polledSleep = time.Second
)

// mover moves the due jobs of one partition.
type mover struct {
	store        *store.Store
	prefix       string // of its keys and channels
	interval     time.Duration
	log          *slog.Logger
	outages      *outages
	batch        batchSize
	stuck        stuckJobs
	listener     atomic.Pointer[store.Subscription] // nil before there was one
	missesPushes atomic.Bool                        // it runs, and has no subscription
	askAgain     time.Duration                      // askAgain, but for tests
	atOnce       int                                // atOnce, but for tests
	observer     observers                          // heart is one of them
	heart        heart                              // without an ID while it doesn't run
	version      string

	now   time.Time // when jobs were found last, by Redis's clock
	asked time.Time // the same by ours, or a little before

	deadMaxAge time.Duration // 0 if dead letters are kept for ever
	deadMax    int           // of a topic; 0 if any number is kept
	dead       deadSweep     // of those that are not kept
	topics     topicSweep

	// beforeMove, if set, is called when due jobs were found and are about to
	// be moved (tests).
	beforeMove func()
}

func newMover(jobs *store.Store, o Options) *mover {
	log := newLog(o)
	outages := newOutages(log)
	m := &mover{
		store:    jobs,
		prefix:   o.Prefix,
		interval: min(o.Interval, longestSleep),
		log:      log,
		outages:  outages,
		// Redis does two things of that size one after the other: it moves a
		// batch and finds the next. The last quarter is for what a script
		// can't see: the reading of the call, the writing of the answer.
		batch:    newBatchSize(o.StallBudget * 3 / 8),
		stuck:    newStuckJobs(outages),
		askAgain: askAgain,
		atOnce:   atOnce,
		version:  o.Version,

		deadMaxAge: max(o.DeadMaxAge, 0),
		deadMax:    max(o.DeadMax, 0),
	}
	m.observer = observers{&m.heart}
	if o.Observer != nil {
		m.observer = append(m.observer, o.Observer)
	}
	return m
}

// run makes passes until ctx is done.
func (m *mover) run(ctx context.Context) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(stopWait, cancel) })()

	alarm := newAlarm()
	defer alarm.close()
	defer context.AfterFunc(ctx, func() { alarm.wakeBy(time.Now()) })()
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		m.listen(ctx, alarm)
	}()

	m.heart = newHeart(m.version, m.interval, time.Now())
	for ctx.Err() == nil {
		started := time.Now()
		result, err := m.pass(ctx, work)
		if work.Err() != nil {
			return
		}
		m.outages.report("redis", "Redis does not work for us", err)
		if err == nil {
			m.dropDead(work)
			m.sweepTopics(work)
		}
		if err == nil || !store.Temporary(err) { // else it would wait for the same
			m.beat(work, started)
		}
		alarm.sleepUntil(m.nextPass(started, result, err))
	}
	m.signOff(work)
	select {
	case <-listening:
	case <-work.Done(): // it dials, and can't be told to stop
	}
}

// once makes one pass.
func (m *mover) once(ctx context.Context) error {
	work := context.WithoutCancel(ctx)
	if _, err := m.pass(ctx, work); err != nil {
		return err
	}
	m.dropAllDead(work)
	m.sweepAllTopics(work)
	return ctx.Err()
}

// nextPass is when the pass is due that follows one. After a pass that failed
// it is not earlier because of a job: that would fail as well.
func (m *mover) nextPass(started time.Time, r result, err error) time.Time {
	next := started.Add(m.interval)
	if m.missesPushes.Load() {
		next = started.Add(m.polledInterval())
	}
	if err == nil && !r.Next.IsZero() && r.Next.Before(next) {
		next = r.Next
	}
	if soon := time.Now().Add(goOnSoon); err == nil && (m.dead.underWay() || m.topics.underWay) && soon.Before(next) {
		next = soon
	}
	if soonest := time.Now().Add(minWait); next.Before(soonest) {
		return soonest
	}
	return next
}

// polledInterval is the interval as long as there is no subscription.
func (m *mover) polledInterval() time.Duration { return min(m.interval, polledSleep) }

// redisTime is about what Redis's clock says now.
func (m *mover) redisTime() time.Time { return m.now.Add(time.Since(m.asked)) }

// isCut reports whether err is a connection that was closed on us.
func isCut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
