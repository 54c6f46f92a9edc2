package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	heartbeatScript = newScript("heartbeat")
	serversScript   = newScript("servers")
)

// ServerState is a server's entry in the hash of servers.
type ServerState struct {
	ID       string        // of this run of the server
	Started  time.Time     // by Redis's clock, like the next two
	Written  time.Time     // when the entry was written
	Age      time.Duration // since then
	Interval time.Duration // maximum time between its passes, and so between its entries
	Host     string
	PID      int
	Version  string
	Totals
	Error string // why the last pass failed; empty if it succeeded
}

// Totals counts a server's work since its start.
type Totals struct {
	Moved    int64 // jobs that became ready
	Returned int64 // of these, jobs whose leases had ended
	Dropped  int64 // orphans, and jobs buried before they expired
	Passes   int64
	Lateness Lateness // of the jobs that became ready
}

// staleAfter is the silence after which a server no longer counts as running.
const staleAfter = time.Minute

// Stale reports whether the server has been silent too long: it has died, or can't reach Redis.
func (s ServerState) Stale() bool { return s.Age > max(staleAfter, 2*s.Interval) }

const (
	// RenewEvery is the interval at which an idle server renews its entry.
	RenewEvery = 10 * time.Second
	// aliveSlack is the tolerance for late renewals.
	aliveSlack = 5 * time.Second
)

// Alive returns the servers that seem to work. An idle server renews its entry every RenewEvery, with a pass.
func Alive(servers []ServerState) (alive []ServerState) {
	for _, s := range servers {
		if s.Age <= RenewEvery+s.Interval+aliveSlack {
			alive = append(alive, s)
		}
	}
	return alive
}

// serverEntry is a ServerState as Redis stores it. Times are in ms.
type serverEntry struct {
	Now      int64   `json:"now"`
	Started  int64   `json:"started"`
	Interval int64   `json:"interval"`
	Host     string  `json:"host"`
	PID      int     `json:"pid"`
	Version  string  `json:"version"`
	Moved    int64   `json:"moved"`
	Returned int64   `json:"returned"`
	Dropped  int64   `json:"dropped"`
	Passes   int64   `json:"passes"`
	Lateness []int64 `json:"lateness"`
	Late     float64 `json:"late"`
	Error    string  `json:"error"`
}

// maxText bounds the texts of an entry, in bytes: all of it must be below MAX_ENTRY, and a byte may take six.
const maxText = 300

// short truncates a text for an entry.
func short(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxText)], "?") }

// rest returns the part of the entry after the numbers that heartbeat.lua writes.
func (s ServerState) rest() (string, error) {
	all, err := json.Marshal(serverEntry{
		Host: short(s.Host), PID: s.PID, Version: short(s.Version),
		Moved: s.Moved, Returned: s.Returned, Dropped: s.Dropped, Passes: s.Passes,
		Lateness: s.Lateness.Counts[:], Late: s.Lateness.Sum, Error: short(s.Error),
	})
	_, rest, _ := strings.Cut(string(all), `"interval":0,`)
	return rest, err
}

// HeartbeatReply is the result of a Heartbeat.
type HeartbeatReply struct {
	Started time.Time // when the server started, by Redis's clock
	Entries int       // number of entries; -1 if this user may not count them
	Entry   Entry     // the previous entry
	Swept   bool
	Others  []ServerState // the other servers that run, if Swept
}

// Entry describes the server's previous entry, as found by a Heartbeat.
type Entry int

// NoEntryNorHistory means that Redis has lost more than the entry, which other servers delete after a silence.
const (
	NoEntryNorHistory Entry = iota - 1
	NoEntry
	HadEntry
)

// Heartbeat writes the state of a running server, by Redis's clock. Without Started the server started Age ago. If the number of entries
// is negative, or differs from that after the last sweep, the heartbeat sweeps: it deletes the entries of stale servers and any other
// fields of the hash. The server's work since its last entry is added to the History.
//
// acked is the number of jobs ever acknowledged elsewhere, to be added to the store's own; -1 if unknown.
func (s *Store) Heartbeat(state ServerState, entries int, acked int64) *Call[HeartbeatReply] {
	rest, err := state.rest()
	if err != nil { // for a sum that is not a number, which move.lua never returns
		rest = `"error":""}`
	}
	started := -max(state.Age.Milliseconds(), 1)
	if !state.Started.IsZero() {
		started = state.Started.UnixMilli()
	}
	args := append(arguments(6, s.keys.Servers()), state.ID, started, state.Interval.Milliseconds(), rest, entries, acked)
	return newCall(s, heartbeatScript, args, func(reply any) (b HeartbeatReply, err error) {
		var ms int64
		others, err := scan(reply, &ms, &b.Entries, &b.Entry)
		b.Started, b.Swept = time.UnixMilli(ms), len(others) > 0
		if err == nil && b.Swept {
			b.Others, err = serversOf(others)
		}
		return b, err
	})
}

// SignOff deletes the entry of a server that stops.
func (s *Store) SignOff(ctx context.Context, id string) error {
	_, err := s.command(ctx, "HDEL", s.keys.Servers(), id)
	return err
}

// Servers returns the servers, 250 at most, by start time. A killed server stays listed until another one deletes its entry: see Stale.
// Invalid entries are skipped.
func (s *Store) Servers(ctx context.Context) ([]ServerState, error) {
	return newCall(s, serversScript, arguments(0, s.keys.Servers()), serversOf).Do(ctx)
}

func serversOf(reply any) (servers []ServerState, err error) {
	var now int64
	rest, err := scan(reply, &now)
	if err != nil {
		return nil, err
	}
	for ; len(rest) >= 2; rest = rest[2:] {
		id, _ := rest[0].([]byte)
		text, _ := rest[1].([]byte)
		if state, ok := serverStateOf(string(id), text, now); ok {
			servers = append(servers, state)
		}
	}
	slices.SortFunc(servers, func(a, b ServerState) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID))
	})
	return servers, nil
}

func serverStateOf(id string, text []byte, now int64) (ServerState, bool) {
	var e serverEntry
	if json.Unmarshal(text, &e) != nil || !e.plausible() {
		return ServerState{}, false
	}
	s := ServerState{
		ID: id, Host: e.Host, PID: e.PID, Version: e.Version, Error: e.Error,
		Started: time.UnixMilli(e.Started), Written: time.UnixMilli(e.Now),
		Age:      time.Duration(max(now-e.Now, 0)) * time.Millisecond,
		Interval: time.Duration(e.Interval) * time.Millisecond,
		Totals:   Totals{Moved: e.Moved, Returned: e.Returned, Dropped: e.Dropped, Passes: e.Passes, Lateness: Lateness{Sum: e.Late}},
	}
	copy(s.Lateness.Counts[:], e.Lateness)
	return s, true
}

// maxMs is the latest time allowed in an entry, to keep arithmetic safe.
const maxMs = int64(1) << 43

// plausible reports whether the entry's times and counts are safe to compute with.
func (e serverEntry) plausible() bool {
	const most = int64(1) << 53
	counts := append(slices.Clone(e.Lateness), e.Moved, e.Returned, e.Dropped, e.Passes)
	return len(e.Lateness) == len(Lateness{}.Counts) && e.Late >= 0 &&
		min(e.Now, e.Started) > 0 && max(e.Now, e.Started) <= maxMs && e.Interval > 0 && e.Interval <= AnnouncedWithin.Milliseconds() &&
		slices.Min(counts) >= 0 && slices.Max(counts) <= most
}

// Acked returns the number of jobs ever acknowledged, by all clients that may count them.
func (s *Store) Acked() *Call[int64] {
	return newCommand(s, "GET", func(reply any) (int64, error) {
		n, err := redis.Int64(reply, nil)
		if errors.Is(err, redis.ErrNil) {
			return 0, nil
		}
		return n, err
	}, s.keys.Acked())
}
