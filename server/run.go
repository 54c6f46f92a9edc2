package server

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

const (
	// minWait is the shortest time between two passes. Most jobs are due at whole milliseconds, and one pass moves all
	// jobs of a millisecond, so a shorter wait would gain nothing.
	minWait = 500 * time.Microsecond
	// stopWait is how long a stop waits for the batch in progress.
	stopWait = 4 * time.Second
	// atOnce is how many due jobs due.lua moves itself, which saves a round trip.
	atOnce = 64
)

const (
	// longestSleep bounds a server's sleep, whatever the interval: a push announces only jobs that fall due within
	// store.AnnouncedWithin.
	longestSleep = store.AnnouncedWithin - 5*time.Second
	// polledSleep bounds the sleep of a server that cannot hear announcements.
	polledSleep = time.Second
)

// run runs the movers until ctx is done.
func (s *Server) run(ctx context.Context) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(stopWait, cancel) })()

	s.heartbeat.begin(s.options.Version, s.options.Interval, time.Now())
	for _, m := range s.movers {
		for _, w := range m.sweeps { // spread over time; the first mover sweeps at once
			w.ended = time.Now().Add(time.Duration(m.number)*sweepAfter/time.Duration(len(s.movers)) - sweepAfter)
		}
		m.acked.Store(-1)
	}
	var loops, listeners sync.WaitGroup
	for _, l := range s.newLoops(ctx, work) {
		listeners.Go(l.listen)
		loops.Go(l.run)
	}
	loops.Wait()
	for _, m := range s.movers {
		m.standby.Store(false) // of another Run or Pass
	}
	if work.Err() != nil {
		return
	}
	s.signOff(work)
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		listeners.Wait()
	}()
	select {
	case <-listening:
	case <-work.Done(): // a dial in progress cannot be cancelled
	}
}

// polledInterval is the interval between passes without a subscription.
func (s *Server) polledInterval() time.Duration { return min(s.options.Interval, polledSleep) }

// isCut reports whether err says that the other side closed the connection.
func isCut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
