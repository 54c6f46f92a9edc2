package store

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

func (s *Store) heartbeat(state ServerState, sweep bool) (time.Time, error) {
	b, err := s.beat(state, sweep)
	return b.Started, err
}

// beat sends a heartbeat that either sweeps or knows the number of entries.
func (s *Store) beat(state ServerState, sweep bool) (HeartbeatReply, error) {
	entries := -1
	if !sweep {
		ctx := context.Background()
		there, _ := redis.Int(s.command(ctx, "HLEN", s.keys.Servers()))
		own, _ := redis.Int(s.command(ctx, "HEXISTS", s.keys.Servers(), state.ID))
		entries = there + 1 - own
	}
	return s.Heartbeat(state, entries, 0).Do(context.Background())
}

// listed returns the servers by ID. They must be readable.
func (b *backend) listed(t *testing.T) map[string]ServerState {
	t.Helper()
	servers, err := b.Servers(t.Context())
	check(t, err)
	byID := map[string]ServerState{}
	for _, s := range servers {
		byID[s.ID] = s
	}
	if len(byID) != len(servers) {
		t.Errorf("an ID stands there twice: %+v", servers)
	}
	return byID
}

// registered writes the entry of a server as of this long ago.
func (b *backend) registered(t *testing.T, id string, ago time.Duration, state ServerState) {
	t.Helper()
	rest, err := state.rest()
	check(t, err)
	written := int64(b.clock(t)*1000) - ago.Milliseconds()
	b.do(t, "HSET", "delayer:servers", id, fmt.Sprintf(`{"now":%d,"started":%d,"interval":%d,`, written, written-1000, state.Interval.Milliseconds())+rest)
}

// The state that a server writes is read back unchanged, with Redis's time.
func TestHeartbeat(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t)
		said := ServerState{
			ID: "host:1:ab", Age: time.Minute, Interval: 55 * time.Second,
			Host: "host", PID: 1, Version: "1.1.0", Error: "WRONGTYPE …",
			Totals: Totals{Moved: math.MaxInt32 * 1000, Returned: 2, Dropped: 3, Passes: 4, Lateness: Lateness{Sum: 1234567.891}},
		}
		for n := range said.Lateness.Counts {
			said.Lateness.Counts[n] = int64(n)
		}
		var started time.Time
		first := b.timed(t, func() {
			var err error
			if started, err = b.heartbeat(said, false); err != nil {
				t.Fatal(err)
			}
		})
		first.expectAfter(t, "the start", float64(started.UnixMilli())/1000, -time.Minute)

		said.Started, said.Age, said.Moved = started, 0, said.Moved+1
		second := b.timed(t, func() {
			if again, err := b.heartbeat(said, true); err != nil || !again.Equal(started) {
				t.Errorf("started %v, then %v, %v", started, again, err)
			}
		})
		got := b.listed(t)["host:1:ab"]
		second.expectAfter(t, "the entry", float64(got.Written.UnixMilli())/1000, 0)
		if got.Age < 0 || got.Age > time.Minute || got.Stale() {
			t.Errorf("age %v, stale: %v", got.Age, got.Stale())
		}
		got.Written, got.Age = time.Time{}, 0
		if !reflect.DeepEqual(got, said) {
			t.Errorf("got  %+v\nwant %+v", got, said)
		}
		if err := b.SignOff(t.Context(), "host:1:ab"); err != nil || len(b.listed(t)) != 0 {
			t.Errorf("after the stop: %v, %v", b.listed(t), err)
		}
		b.expect(t, redistest.State{})
	})
}

// Texts of any bytes and length result in a small, readable entry.
func TestHeartbeatOfAnyBytes(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t)
	for _, s := range []string{"\x00\xff\"\\}", strings.Repeat("<\x01", 10000), strings.Repeat("€", 200), strings.Repeat(`"interval":0,`, 9)} {
		b.seed(t)
		check(t, errOf(b.heartbeat(ServerState{ID: "a", Interval: time.Second, Host: s, Version: s, Error: s}, true)))
		got, ok := b.listed(t)["a"]
		want := strings.ToValidUTF8(s[:min(len(s), maxText)], "?")
		if !ok || got.Host != want || got.Version != want || got.Error != want {
			t.Errorf("of %.20q… %+v", s, got)
		}
	}
}

// A sweeping heartbeat deletes the entries of servers that have been silent for too long, and nothing else.
func TestHeartbeatSweeps(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for _, c := range []struct {
			ago, interval time.Duration
			gone          bool
		}{
			{0, time.Second, false},
			{55 * time.Second, time.Second, false},
			{65 * time.Second, time.Second, true},
			{65 * time.Second, 55 * time.Second, false},
			{105 * time.Second, 55 * time.Second, false},
			{115 * time.Second, 55 * time.Second, true},
			{9999 * time.Hour, time.Second, true},
			{-30 * time.Second, time.Second, false}, // the clock was set back
			{-2 * time.Minute, time.Second, true},
		} {
			for _, sweep := range []bool{false, true} {
				b.seed(t)
				b.registered(t, "other", c.ago, ServerState{Interval: c.interval})
				if stale := b.listed(t)["other"].Stale(); stale != (c.gone && c.ago > 0) {
					t.Errorf("silent for %v, interval %v: stale %v", c.ago, c.interval, stale)
				}
				check(t, errOf(b.heartbeat(ServerState{ID: "this", Interval: time.Second}, sweep)))
				servers := b.listed(t)
				_, other := servers["other"]
				if _, this := servers["this"]; !this || other == (c.gone && sweep) {
					t.Errorf("silent for %v, interval %v, sweep %v: %v", c.ago, c.interval, sweep, servers)
				}
			}
		}
	})
}

// Invalid entries are skipped by readers, and deleted by the next sweep.
func TestHostileServers(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t)
	good := func() serverEntry {
		return serverEntry{Now: 1, Started: 1, Interval: 1, Lateness: make([]int64, len(Lateness{}.Counts))}
	}
	values := []string{"", "{", "null", "[]", "text", `{"now":"1"}`, strings.Repeat("[", 8000), `{"now":99999999999999999999,`, strings.Repeat("x", 1<<20)}
	for _, break_ := range []func(*serverEntry){
		func(e *serverEntry) { e.Now = 0 },
		func(e *serverEntry) { e.Now = math.MaxInt64 },
		func(e *serverEntry) { e.Started = -1 },
		func(e *serverEntry) { e.Started = maxMs + 1 },
		func(e *serverEntry) { e.Interval = 0 },
		func(e *serverEntry) { e.Interval = math.MaxInt64 },
		func(e *serverEntry) { e.Lateness = nil },
		func(e *serverEntry) { e.Lateness = append(e.Lateness, 1) },
		func(e *serverEntry) { e.Lateness[3] = -1 },
		func(e *serverEntry) { e.Late = -1 },
		func(e *serverEntry) { e.Moved = math.MaxInt64 },
		func(e *serverEntry) { e.Passes = -1 },
	} {
		e := good()
		break_(&e)
		text, err := json.Marshal(e)
		check(t, err)
		values = append(values, string(text))
	}
	b.seed(t)
	for n, value := range values {
		b.do(t, "HSET", "delayer:servers", fmt.Sprint("hostile", n), value)
	}
	b.do(t, "HSET", "delayer:servers", strings.Repeat("id", 1<<20), "{}")
	if got := b.listed(t); len(got) != 0 {
		t.Errorf("listed %+v", got)
	}
	check(t, errOf(b.heartbeat(ServerState{ID: "this", Interval: time.Second}, true)))
	if got := b.do(t, "HKEYS", "delayer:servers").([]any); len(got) != 1 || len(b.listed(t)) != 1 {
		t.Errorf("there are still %.1000q", got)
	}
}

// A sweep handles a bounded number of entries, and repeated sweeps delete any number.
func TestManyServers(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t)
	b.seed(t)
	b.do(t, "EVAL", "for i = 1, 1000 do redis.call('HSET', KEYS[1], i, 'text') end", 1, "delayer:servers")
	for n, left := range []int64{750, 500, 250, 0} {
		check(t, errOf(b.heartbeat(ServerState{ID: "this", Interval: time.Second}, true)))
		// The server's own entry may be among the 250 that each sweep checks.
		got := b.do(t, "HLEN", "delayer:servers").(int64)
		if most := left + 1 + int64(n+1); got < left || got > most {
			t.Errorf("%d entries are left, want %d to %d", got, left, most)
		}
	}
	b.seed(t)
	for n := range 300 {
		b.registered(t, fmt.Sprint(n), 0, ServerState{Interval: time.Second})
	}
	if n := len(b.listed(t)); n != 250 {
		t.Errorf("%d servers are listed", n)
	}
}

// A server that starts on a full Redis is listed, too.
func TestHeartbeatAtMaxmemory(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	b.do(t, "CONFIG", "SET", "maxmemory", 1, "maxmemory-policy", "noeviction")
	for range 2 {
		if _, err := b.heartbeat(ServerState{ID: "this", Interval: time.Second}, true); err != nil || len(b.listed(t)) != 1 {
			t.Errorf("%v, %v", b.listed(t), err)
		}
	}
}

// Without the permission, or with a key of another type, a call changes nothing and returns the error.
func TestServersWithoutPermission(t *testing.T) {
	t.Parallel()
	b, user := onRedisAs(t)
	ctx := t.Context()
	calls := map[string]func() error{
		"heartbeat": func() error {
			return errOf(user.heartbeat(ServerState{ID: "this", Interval: time.Second, Version: "new"}, true))
		},
		"servers":  func() error { return errOf(user.Servers(ctx)) },
		"sign off": func() error { return user.SignOff(ctx, "this") },
		"acked":    func() error { return errOf(user.Acked().Do(ctx)) },
	}
	seed := func() {
		b.seed(t)
		b.registered(t, "this", 0, ServerState{Interval: time.Second})
		b.registered(t, "gone", time.Hour, ServerState{Interval: time.Second})
	}
	for name, required := range map[string]string{"heartbeat": "time hset hdel hrandfield hstrlen hget", "servers": "time hrandfield hstrlen hget"} {
		b.withoutEach(t, name, required, func(*testing.T) func() error { seed(); return calls[name] })
	}
	seed()
	b.expectDenied(t, "hdel", calls["sign off"])
	b.expectDenied(t, "get", calls["acked"])
	b.do(t, "ACL", "SETUSER", "u", "+@all")
	b.seed(t, text("servers"), []command{{"LPUSH", "delayer:acked", "no number"}})
	for name, call := range calls {
		if err := call(); !begins(err, "WRONGTYPE") {
			t.Errorf("%s of another type: %v", name, err)
		}
	}
}

// A sweep reports the other running servers, without itself and those it has just deleted.
func TestHeartbeatTellsOfOthers(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.registered(t, "other", 5*time.Second, ServerState{ID: "other", Interval: time.Second, Host: "h"})
		b.registered(t, "gone", 2*time.Minute, ServerState{ID: "gone", Interval: time.Second})
		b.do(t, "HSET", "delayer:servers", "junk", "text")
		own := ServerState{ID: "own", Interval: time.Second}
		for _, sweep := range []bool{false, true, true} {
			beat, err := b.beat(own, sweep)
			check(t, err)
			if beat.Swept != sweep || beat.Entries != map[bool]int{false: 4, true: 2}[sweep] {
				t.Errorf("with sweep %v: %+v", sweep, beat)
			}
			if !sweep && beat.Others != nil || sweep && (len(beat.Others) != 1 || beat.Others[0].ID != "other" || beat.Others[0].Age < 5*time.Second || beat.Others[0].Host != "h") {
				t.Errorf("with sweep %v it told of %+v", sweep, beat.Others)
			}
			own.Started = beat.Started
		}
	})
}

// A server that knows the number of entries notices new servers at its next heartbeat.
func TestHeartbeatFindsNewcomers(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		own := ServerState{ID: "own", Interval: time.Second}
		first := made(t, b.Heartbeat(own, -1, 0))
		again := made(t, b.Heartbeat(own, first.Entries, 0))
		if !first.Swept || first.Entries != 1 || again.Swept || again.Entries != 1 {
			t.Errorf("alone: %+v, and then %+v", first, again)
		}
		b.registered(t, "other", time.Second, ServerState{ID: "other", Interval: time.Second})
		found := made(t, b.Heartbeat(own, first.Entries, 0))
		if !found.Swept || found.Entries != 2 || len(found.Others) != 1 || found.Others[0].ID != "other" {
			t.Errorf("when another one has come: %+v", found)
		}
	})
}

// A server that may not count the entries does not notice new servers.
func TestHeartbeatWithoutRightToCount(t *testing.T) {
	t.Parallel()
	b, user := onRedisAs(t)
	b.do(t, "ACL", "SETUSER", "u", "allkeys", "+@all", "-hlen")
	b.registered(t, "other", time.Second, ServerState{ID: "other", Interval: time.Second})
	if beat, err := user.Heartbeat(ServerState{ID: "own", Interval: time.Second}, 0, 0).Do(t.Context()); err != nil || beat.Swept || beat.Entries != -1 {
		t.Errorf("%+v, %v", beat, err)
	}
	if beat, err := user.Heartbeat(ServerState{ID: "own", Interval: time.Second}, -1, 0).Do(t.Context()); err != nil || len(beat.Others) != 1 {
		t.Errorf("in any case: %+v, %v", beat, err)
	}
}

func TestAlive(t *testing.T) {
	for age, want := range map[time.Duration]int{0: 1, RenewEvery + time.Second: 1, RenewEvery + time.Second + aliveSlack: 1, time.Minute: 0} {
		if got := Alive([]ServerState{{Interval: time.Second, Age: age}}); len(got) != want {
			t.Errorf("%d alive that said so %v ago, want %d", len(got), age, want)
		}
	}
}

// The previous entry of a server shows which data Redis has lost.
func TestPreviousEntry(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	b.seed(t)
	beat := func() Entry {
		got := made(t, b.Heartbeat(ServerState{ID: "a", Interval: time.Second}, 1, 0))
		return got.Entry
	}
	first, again := beat(), beat()
	b.do(t, "HDEL", "delayer:servers", "a")
	deleted := beat()
	b.do(t, "FLUSHALL")
	if got, want := []Entry{first, again, deleted, beat()}, []Entry{NoEntryNorHistory, HadEntry, NoEntry, NoEntryNorHistory}; !slices.Equal(got, want) {
		t.Errorf("it was %v, want %v", got, want)
	}
}
