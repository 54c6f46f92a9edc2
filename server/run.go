package server

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
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
	// longestSleep is how long a server sleeps at most, whatever the interval: a push
	// tells only of jobs that fall due before the pass after that.
	longestSleep = store.AnnouncedWithin - 5*time.Second
	// polledSleep is the same for one that misses what pushes tell.
	polledSleep = time.Second
)

// run makes passes until ctx is done.
func (s *Server) run(ctx context.Context) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(stopWait, cancel) })()

	alarm := &alarm{timer: newTimer()}
	defer alarm.timer.close()
	defer context.AfterFunc(ctx, func() { alarm.wakeBy(time.Now()) })()
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		s.listen(ctx, alarm)
	}()

	s.heart = newHeart(s.options.Version, s.options.Interval, time.Now())
	for ctx.Err() == nil {
		started := time.Now()
		next, err := s.pass(ctx, work)
		if work.Err() != nil {
			return
		}
		s.outages.report("Redis does not work for us", err)
		if err == nil {
			for _, w := range s.sweeps {
				w.goOn(work)
			}
		}
		if err == nil || !store.Temporary(err) { // else it would wait for the same
			s.beat(work, started)
		}
		alarm.sleepUntil(s.nextPass(started, next, err))
	}
	s.signOff(work)
	select {
	case <-listening:
	case <-work.Done(): // it dials, and can't be told to stop
	}
}

// nextPass is when the pass is due that follows one. After a pass that failed
// it is not earlier because of a job: that would fail as well.
func (s *Server) nextPass(started, job time.Time, err error) time.Time {
	next := started.Add(s.options.Interval)
	if s.missesPushes.Load() {
		next = started.Add(s.polledInterval())
	}
	if err == nil && !job.IsZero() && job.Before(next) {
		next = job
	}
	underWay := func(w *sweep) bool { return w.underWay }
	if soon := time.Now().Add(goOnSoon); err == nil && slices.ContainsFunc(s.sweeps, underWay) && soon.Before(next) {
		next = soon
	}
	return later(next, time.Now().Add(minWait))
}

// polledInterval is the interval as long as there is no subscription.
func (s *Server) polledInterval() time.Duration { return min(s.options.Interval, polledSleep) }

// redisTime is about what Redis's clock says now.
func (s *Server) redisTime() time.Time { return s.now.Add(time.Since(s.asked)) }

// isCut reports whether err is a connection that was closed on us.
func isCut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
