package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

const (
	// beatEvery is how often a server says how it fares if something has changed,
	// renewEvery how often it says so if nothing has.
	beatEvery, renewEvery = time.Second, 10 * time.Second
	// sweepEvery is how often it deletes the entries of servers that are gone.
	sweepEvery = time.Minute
	// signOffWait is how long a stop waits for the deletion of the entry.
	signOffWait = time.Second
)

// heart is what a server that runs says of itself in Redis, and when it did. It observes
// its own Server.
type heart struct {
	state, told store.ServerState
	began       time.Time
	tried       time.Time // when it was last told, or could not be
	refused     bool      // it could not be
	swept       time.Time
}

// newHeart is that of a server that begins to run.
func newHeart(version string, interval time.Duration, began time.Time) heart {
	host, _ := os.Hostname()
	random := make([]byte, 4)
	rand.Read(random)
	return heart{began: began, state: store.ServerState{
		ID:   fmt.Sprintf("%.255s:%d:%x", host, os.Getpid(), random),
		Host: host, PID: os.Getpid(), Version: version, Interval: interval,
	}}
}

func (h *heart) Moved(_ string, m Moved) {
	h.state.Moved += int64(m.Jobs)
	h.state.Returned += int64(m.Returned)
	h.state.Lateness = h.state.Lateness.Plus(store.Lateness(m.Late))
}

func (h *heart) Dropped(jobs int) { h.state.Dropped += int64(jobs) }

func (h *heart) Passed(_ time.Duration, err error) {
	h.state.Passes++
	h.state.Error = ""
	if err != nil {
		h.state.Error = err.Error()
	}
}

func (*heart) Called(string, time.Duration) {}

// isDue reports whether the state is to be told now. A server that doesn't run has no ID.
func (h *heart) isDue(now time.Time) bool {
	silent := now.Sub(h.tried)
	return h.state.ID != "" && (silent >= renewEvery || silent >= beatEvery && h.hasNews() && !h.refused)
}

// hasNews reports whether anything but passes happened since the state was last told.
func (h *heart) hasNews() bool {
	state := h.state
	state.Passes = h.told.Passes
	return state != h.told
}

// beat tells how the server fares, if that is due. It wakes nobody: it is called where the server
// is awake anyway. Nothing depends on it.
func (s *Server) beat(work context.Context, now time.Time) {
	h := &s.heart
	if !h.isDue(now) {
		return
	}
	h.tried, h.state.Age = now, time.Since(h.began)
	sweep := now.Sub(h.swept) >= sweepEvery
	err := s.pipelined(work, func(ctx context.Context, p *store.Pipeline) error {
		started, err := s.store.Heartbeat(h.state, sweep).On(ctx, p)
		if err == nil {
			h.state.Started = started
		}
		return err
	})
	h.state.Age = 0
	if h.refused = err != nil; !h.refused {
		h.told = h.state
	}
	if sweep {
		h.swept = now
	}
	s.outages.aside(fmt.Sprintf("This server can't say in %s how it fares, it moves jobs all the same", s.store.Keys().Servers()), err, false)
}

// signOff takes back what the server has said of itself.
func (s *Server) signOff(work context.Context) {
	if s.heart.told.ID != "" {
		ctx, cancel := context.WithTimeout(work, signOffWait)
		defer cancel()
		s.store.SignOff(ctx, s.heart.state.ID)
	}
	s.heart = heart{}
}
