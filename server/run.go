package server

import (
	"context"
	"errors"
	"io"
	"net"
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

	s.heart.begin(s.options.Version, s.options.Interval, time.Now())
	r := &running{Server: s, ctx: ctx, work: work, began: time.Now(), nodes: map[any]*node{}}
	for _, m := range s.movers {
		m.spreadSweeps(time.Now())
		m.acked.Store(-1)
	}
	s.locate(ctx)
	r.place(s.movers...)
	if s.options.PartitionsBefore > 0 {
		r.loops.Go(func() { s.finishAside(ctx, work) })
	}
	r.loops.Wait()
	if work.Err() != nil {
		return
	}
	s.signOff(work)
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		r.listening.Wait()
	}()
	select {
	case <-listening:
	case <-work.Done(): // one dials, and can't be told to stop
	}
}

// locate waits until a node of a cluster tells on which nodes the partitions are.
func (s *Server) locate(ctx context.Context) {
	for ctx.Err() == nil {
		err := s.partitions.Locate(ctx)
		s.outages.report(noRedis, err)
		if err == nil {
			return
		}
		select {
		case <-time.After(s.polledInterval()):
		case <-ctx.Done():
		}
	}
}

// polledInterval is the interval as long as there is no subscription.
func (s *Server) polledInterval() time.Duration { return min(s.options.Interval, polledSleep) }

// isCut reports whether err is a connection that was closed on us.
func isCut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
