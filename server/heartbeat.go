package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/store"
)

const (
	// heartbeatEvery is how often a server writes its state after a change, renewEvery how often without one.
	heartbeatEvery, renewEvery = time.Second, store.RenewEvery
	// sweepEvery is how often a server that is alone deletes the entries of servers that are gone.
	sweepEvery = time.Minute
	// signOffWait bounds the deletion of the server's entry at a stop.
	signOffWait = time.Second
)

// heartbeat keeps the state that a running server writes to Redis once a second.
type heartbeat struct {
	began   time.Time
	tried   time.Time // the last attempt to write
	refused bool      // the last attempt failed
	written time.Time // the last success
	swept   time.Time
	entries int                 // at the last sweep
	others  []store.ServerState // alive at the last sweep

	mu          sync.Mutex
	state, told store.ServerState // now; as last written
	failing     map[int]error     // by mover: why its last pass failed
}

// begin starts the state of a server that begins to run.
func (h *heartbeat) begin(version string, interval time.Duration, began time.Time) {
	host, _ := os.Hostname()
	random := make([]byte, 4)
	rand.Read(random)
	h.end()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.began = began
	h.state = store.ServerState{
		ID:   fmt.Sprintf("%.255s:%d:%x", host, os.Getpid(), random),
		Host: host, PID: os.Getpid(), Version: version, Interval: interval,
	}
}

// end clears the state: without an ID the server does not run.
func (h *heartbeat) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.began, h.tried, h.refused, h.written, h.swept, h.others = time.Time{}, time.Time{}, false, time.Time{}, time.Time{}, nil
	h.state, h.told, h.failing = store.ServerState{}, store.ServerState{}, nil
}

func (h *heartbeat) moved(m store.Moved) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.Moved += int64(len(m.IDs))
	h.state.Returned += int64(m.Lapsed)
	h.state.Lateness = h.state.Lateness.Plus(m.Late)
}

func (h *heartbeat) dropped(jobs int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.Dropped += int64(jobs)
}

func (h *heartbeat) passed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.Passes++
}

// failed records the result of a mover's pass. If several fail, the state has the error of the first.
func (h *heartbeat) failed(mover int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil && len(h.failing) == 0 {
		return
	}
	if h.failing == nil {
		h.failing = map[int]error{}
	}
	if h.failing[mover] = err; err == nil {
		delete(h.failing, mover)
	}
	h.state.Error = ""
	for _, first := range slices.Sorted(maps.Keys(h.failing)) {
		h.state.Error = h.failing[first].Error()
		break
	}
}

// next returns the state if it is time to write it: every renewEvery, or every heartbeatEvery if anything but the number of
// passes has changed.
func (h *heartbeat) next(now time.Time) (state store.ServerState, isDue bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	silent, told := now.Sub(h.tried), h.told
	told.Passes = h.state.Passes
	if h.state.ID == "" || silent < renewEvery && (silent < heartbeatEvery || h.refused || h.state == told) {
		return state, false
	}
	h.tried, state = now, h.state
	state.Age = time.Since(h.began)
	return state, true
}

// tell records that the state was written, or why not.
func (h *heartbeat) tell(state store.ServerState, started time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refused = err != nil; !h.refused {
		h.written = h.tried
		state.Age, state.Started, h.state.Started = 0, started, started
		h.told = state
	}
}

// isForgotten reports whether Redis has lost what the server wrote. A missing entry alone proves nothing if the server was
// silent for long: other servers delete such entries, but keep the history.
func (h *heartbeat) isForgotten(was store.Entry, now time.Time) bool {
	switch {
	case h.written.IsZero() || was == store.HadEntry:
		return false
	case was == store.NoEntryNorHistory:
		return true
	}
	return !store.ServerState{Age: now.Sub(h.written), Interval: h.state.Interval}.Stale()
}

// writeHeartbeat writes the server's state if that is due. It never wakes the server: it is called when the server is awake
// anyway. No delivery depends on it.
func (s *Server) writeHeartbeat(work context.Context, now time.Time) {
	h, first := &s.heartbeat, s.movers[0]
	state, isDue := h.next(now)
	if !isDue {
		return
	}
	entries, every := h.entries, sweepEvery
	if len(h.others) > 0 { // a server that is alone notices another one by the number of entries
		every = renewEvery
	}
	if now.Sub(h.swept) >= every {
		entries = -1
	}
	var elsewhere int64
	if len(s.movers) > 1 {
		elsewhere = s.ackedElsewhere()
	}
	var beat store.HeartbeatReply
	err := first.pipelined(work, func(ctx context.Context, p *store.Pipeline) (err error) {
		beat, err = first.store.Heartbeat(state, entries, elsewhere).On(ctx, p)
		return err
	})
	if entries < 0 || beat.Swept {
		h.swept, h.entries = now, max(beat.Entries, 0)
	}
	if beat.Swept {
		h.others = store.Alive(beat.Others)
		s.prefer(h.others)
	}
	if err == nil && h.isForgotten(beat.Entry, now) {
		s.log.Error(fmt.Sprintf("Redis has lost what this server wrote to %s %v ago, and with it probably jobs, schedules and dead letters: it was flushed, or restarted without its data (see appendonly in redis.conf)",
			first.store.Keys().Servers(), duration.Format(now.Sub(h.written).Round(time.Second))))
	}
	h.tell(state, beat.Started, err)
	s.outages.reportMinor(fmt.Sprintf("Cannot write this server's state to %s; jobs are moved all the same", first.store.Keys().Servers()), err, false)
}

// ackedElsewhere is how many jobs of all movers but the first were acknowledged, as last counted; -1 if unknown.
func (s *Server) ackedElsewhere() (all int64) {
	for _, m := range s.movers[1:] {
		acked := m.acked.Load()
		if acked < 0 {
			return -1
		}
		all += acked
	}
	return all
}

func (s *Server) signOff(work context.Context) {
	if s.heartbeat.told.ID != "" {
		ctx, cancel := context.WithTimeout(work, signOffWait)
		defer cancel()
		s.movers[0].store.SignOff(ctx, s.heartbeat.state.ID)
	}
	s.heartbeat.end()
}
