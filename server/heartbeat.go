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

	"github.com/mix-basic/delayer/internal/store"
)

const (
	// beatEvery is how often a server says how it fares if something has changed,
	// renewEvery how often it says so if nothing has.
	beatEvery, renewEvery = time.Second, store.RenewEvery
	// sweepEvery is how often it deletes the entries of servers that are gone, unless it is more often.
	sweepEvery = time.Minute
	// signOffWait is how long a stop waits for the deletion of the entry.
	signOffWait = time.Second
)

// heart is what a server that runs says of itself in Redis, and when it did. It observes
// its own Server.
type heart struct {
	began   time.Time
	tried   time.Time // when it was last told, or could not be
	refused bool      // it could not be
	written time.Time // when it was last told
	swept   time.Time
	entries int                 // how many there were then
	others  []store.ServerState // that were alive then

	mu          sync.Mutex
	state, told store.ServerState
	failing     map[int]error // why the last pass failed, of the movers of which it did
}

// begin makes it that of a server that begins to run.
func (h *heart) begin(version string, interval time.Duration, began time.Time) {
	host, _ := os.Hostname()
	random := make([]byte, 4)
	rand.Read(random)
	h.end()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.began = began
	h.state = store.ServerState{
		ID:   fmt.Sprintf("%.255s:%d:%x", host, os.Getpid(), random),
		Host: host, PID: os.Getpid(), Version: version, Lists: true, Interval: interval,
	}
}

// end makes it that of a server that doesn't run.
func (h *heart) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.began, h.tried, h.refused, h.written, h.swept, h.others = time.Time{}, time.Time{}, false, time.Time{}, time.Time{}, nil
	h.state, h.told, h.failing = store.ServerState{}, store.ServerState{}, nil
}

func (h *heart) Moved(_ string, m Moved) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.Moved += int64(m.Jobs)
	h.state.Returned += int64(m.Returned)
	h.state.Lateness = h.state.Lateness.Plus(store.Lateness(m.Late))
}

func (h *heart) Dropped(jobs int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.Dropped += int64(jobs)
}

func (h *heart) Passed(time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.Passes++
}

func (*heart) Called(string, time.Duration) {}

func (*heart) Fired(Fired) {}

// failed enters what became of a mover's pass. Of several that fail, one has its error in the state.
func (h *heart) failed(mover int, err error) {
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

// next returns the state if it is time to write it: every renewEvery, or after beatEvery if anything but a pass has happened. A server that
// is not running has no ID.
func (h *heart) next(now time.Time) (state store.ServerState, isDue bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	silent, told := now.Sub(h.tried), h.told
	told.Passes = h.state.Passes
	if h.state.ID == "" || silent < renewEvery && (silent < beatEvery || h.refused || h.state == told) {
		return state, false
	}
	h.tried, state = now, h.state
	state.Age = time.Since(h.began)
	return state, true
}

// tell enters that the state was told, or could not be.
func (h *heart) tell(state store.ServerState, started time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refused = err != nil; !h.refused {
		h.written = h.tried
		state.Age, state.Started, h.state.Started = 0, started, started
		h.told = state
	}
}

// isForgotten reports whether Redis no longer knows what the server told it. Other servers delete the entry of one that was silent for long,
// but go on with the last hour.
func (h *heart) isForgotten(was store.Entry, now time.Time) bool {
	switch {
	case h.written.IsZero() || was == store.HadEntry:
		return false
	case was == store.NoEntryNorHistory:
		return true
	}
	return !store.ServerState{Age: now.Sub(h.written), Interval: h.state.Interval}.Stale()
}

// beat tells how the server fares, if that is due. It wakes nobody: it is called where the server
// is awake anyway. Nothing depends on it.
func (s *Server) beat(work context.Context, now time.Time) {
	h, first := &s.heart, s.movers[0]
	state, isDue := h.next(now)
	if !isDue {
		return
	}
	entries, every := h.entries, sweepEvery
	if len(h.others) > 0 { // a server that is alone need not look often: another one that comes makes another entry
		every = renewEvery
	}
	if now.Sub(h.swept) >= every {
		entries = -1
	}
	var beat store.Beat
	err := first.pipelined(work, func(ctx context.Context, p *store.Pipeline) (err error) {
		beat, err = first.store.Heartbeat(state, entries, s.ackedElsewhere()).On(ctx, p)
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
		s.log.Error(fmt.Sprintf("Redis has forgotten what this server wrote in %s %v ago, and with that probably jobs, schedules and dead letters: it was flushed, or started without its data, for which there is appendonly",
			first.store.Keys().Servers(), now.Sub(h.written).Round(time.Second)))
	}
	h.tell(state, beat.Started, err)
	if err != nil || len(s.outages.running) > 0 {
		s.outages.aside(fmt.Sprintf("This server can't say in %s how it fares, it moves jobs all the same", first.store.Keys().Servers()), err, false)
	}
}

// ackedElsewhere is how many jobs of the partitions but the first were acknowledged, when it was last asked; -1 if that is not
// known.
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

// signOff takes back what the server has said of itself.
func (s *Server) signOff(work context.Context) {
	if s.heart.told.ID != "" {
		ctx, cancel := context.WithTimeout(work, signOffWait)
		defer cancel()
		s.movers[0].store.SignOff(ctx, s.heart.state.ID)
	}
	s.heart.end()
}
