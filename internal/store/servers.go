package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	heartbeatScript = newScript("heartbeat")
	serversScript   = newScript("servers")
)

// ServerState is what a server says of itself while it runs: its entry in the hash of servers.
type ServerState struct {
	ID       string        // of this run of it
	Started  time.Time     // by Redis's clock, as the following
	Written  time.Time     // when it said so
	Age      time.Duration // since then
	Interval time.Duration // between its passes, so also between its entries, at most
	Host     string
	PID      int
	Version  string
	Lists    bool // it is known what schedules its file has, see ListSchedules; older servers don't say
	Totals
	Error string // why the last pass failed; empty if it didn't
}

// Totals are what a server has done since it started.
type Totals struct {
	Moved    int64 // jobs that became ready
	Returned int64 // of these, leases that had ended
	Dropped  int64 // orphans
	Passes   int64
	Lateness Lateness // of the jobs that became ready
}

// staleAfter is how long a server must have been silent to be gone.
const staleAfter = time.Minute

// Stale reports whether the server has been silent for so long that it seems to be gone, or
// that it can't reach Redis.
func (s ServerState) Stale() bool { return s.Age > max(staleAfter, 2*s.Interval) }

const (
	// RenewEvery is how often a server says how it fares if nothing has changed.
	RenewEvery = 10 * time.Second
	// aliveSlack is how much later than they are due a server's words may come.
	aliveSlack = 5 * time.Second
)

// Alive are those of the servers that seem to be at work. An idle one says so every RenewEvery, with a look.
func Alive(servers []ServerState) (alive []ServerState) {
	for _, s := range servers {
		if s.Age <= RenewEvery+s.Interval+aliveSlack {
			alive = append(alive, s)
		}
	}
	return alive
}

// Mover is the server that should move the partition's jobs: of those alive the one that wants it most (rendezvous
// hashing). So the partitions of one that goes are divided among the others, and nothing else changes. Without any it is the zero
// ServerState.
func Mover(partition int, alive []ServerState) (mover ServerState) {
	var most uint64
	for i, s := range alive {
		hash := sha256.Sum256(fmt.Append(nil, partition, " ", s.ID))
		wants := binary.BigEndian.Uint64(hash[:])
		if i == 0 || wants > most {
			mover, most = s, wants
		}
	}
	return mover
}

// serverEntry is a ServerState as it lies in Redis. Times are in ms.
type serverEntry struct {
	Now      int64   `json:"now"`
	Started  int64   `json:"started"`
	Interval int64   `json:"interval"`
	Host     string  `json:"host"`
	PID      int     `json:"pid"`
	Version  string  `json:"version"`
	Lists    bool    `json:"lists"`
	Moved    int64   `json:"moved"`
	Returned int64   `json:"returned"`
	Dropped  int64   `json:"dropped"`
	Passes   int64   `json:"passes"`
	Lateness []int64 `json:"lateness"`
	Late     float64 `json:"late"`
	Error    string  `json:"error"`
}

// maxText bounds what an entry has of a text, in bytes: all of it must be below MAX_ENTRY, where a
// byte may take six.
const maxText = 300

// short is a text as an entry in Redis has it.
func short(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxText)], "?") }

// rest is the entry behind the numbers that heartbeat.lua writes.
func (s ServerState) rest() (string, error) {
	all, err := json.Marshal(serverEntry{
		Host: short(s.Host), PID: s.PID, Version: short(s.Version), Lists: s.Lists,
		Moved: s.Moved, Returned: s.Returned, Dropped: s.Dropped, Passes: s.Passes,
		Lateness: s.Lateness.Counts[:], Late: s.Lateness.Sum, Error: short(s.Error),
	})
	_, rest, _ := strings.Cut(string(all), `"interval":0,`)
	return rest, err
}

// HeartbeatReply is what came of a Heartbeat.
type HeartbeatReply struct {
	Started time.Time // when the server started, by Redis's clock
	Entries int       // how many servers have one; -1 if this user may not know
	Entry   Entry     // what the server had before
	Swept   bool
	Others  []ServerState // the other servers that run, if Swept
}

// Entry is what there was of a server's entry when it was written again.
type Entry int

// What a server's entry was. Without the last hour of all servers Redis has forgotten more than the entry, which others delete when a server
// was silent.
const (
	NoEntryNorHistory Entry = iota - 1
	NoEntry
	HadEntry
)

// Heartbeat writes the state of a server that runs. Redis's clock says when that was. Without
// Started the server started as long ago as Age says. If there are not as many entries as at the last sweep, or that number is
// below 0, there is a sweep: the
// entries of servers that are Stale are deleted, and whatever else is in that hash. What the server has
// done since its last entry is added to the History.
//
// acked is how many jobs of other partitions were ever acknowledged, -1 if that is not known.
func (s *Store) Heartbeat(state ServerState, entries int, acked int64) *Call[HeartbeatReply] {
	rest, err := state.rest()
	if err != nil { // for a sum that is no number, which move.lua never gives
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

// Servers reads what the servers say of themselves, 250 at most, in the order in which they
// started. Those that were killed are among them until another one has deleted them: see Stale.
// What is no such entry is passed over.
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
		ID: id, Host: e.Host, PID: e.PID, Version: e.Version, Lists: e.Lists, Error: e.Error,
		Started: time.UnixMilli(e.Started), Written: time.UnixMilli(e.Now),
		Age:      time.Duration(max(now-e.Now, 0)) * time.Millisecond,
		Interval: time.Duration(e.Interval) * time.Millisecond,
		Totals:   Totals{Moved: e.Moved, Returned: e.Returned, Dropped: e.Dropped, Passes: e.Passes, Lateness: Lateness{Sum: e.Late}},
	}
	copy(s.Lateness.Counts[:], e.Lateness)
	return s, true
}

// maxMs is the last time that an entry may name, so that it can be computed with.
const maxMs = int64(1) << 43

// plausible reports whether the entry can be one of ours: one can compute with its times and counts.
func (e serverEntry) plausible() bool {
	const most = int64(1) << 53
	counts := append(slices.Clone(e.Lateness), e.Moved, e.Returned, e.Dropped, e.Passes)
	return len(e.Lateness) == len(Lateness{}.Counts) && e.Late >= 0 &&
		min(e.Now, e.Started) > 0 && max(e.Now, e.Started) <= maxMs && e.Interval > 0 && e.Interval <= AnnouncedWithin.Milliseconds() &&
		slices.Min(counts) >= 0 && slices.Max(counts) <= most
}

// AckedOf is Acked of each of the partitions, whose Node is the same, in one round trip; -1 where it can't be told.
func AckedOf(ctx context.Context, on []*Store) ([]int64, error) {
	var commands [][]any
	for _, s := range on {
		commands = append(commands, []any{"GET", s.keys.Acked()})
	}
	replies, err := on[0].together(ctx, commands)
	if err != nil {
		return nil, err
	}
	acked := make([]int64, len(on))
	for i, reply := range replies {
		if n, err := redis.Int64(reply, nil); err == nil {
			acked[i] = n
		} else if !errors.Is(err, redis.ErrNil) {
			acked[i] = -1
		}
	}
	return acked, nil
}

// Acked is how many jobs were ever acknowledged, by all clients that may count them.
func (s *Store) Acked(ctx context.Context) (int64, error) {
	n, err := redis.Int64(s.command(ctx, "GET", s.keys.Acked()))
	if errors.Is(err, redis.ErrNil) {
		return 0, nil
	}
	return n, err
}
