package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// servers returns the servers with a heartbeat.
func (w *world) servers() []store.ServerState {
	w.TB.Helper()
	servers, err := fleetOn(w.Pool(), len(w.server.movers)).Stores[0].Servers(context.Background())
	check(w.TB, err)
	return servers
}

// awaitServer waits until the only server has a heartbeat.
func (w *world) awaitServer(t *testing.T, what string, says func(store.ServerState) bool) (s store.ServerState) {
	t.Helper()
	until(t, what, func() bool {
		servers := w.servers()
		if len(servers) == 1 {
			s = servers[0]
		}
		return len(servers) == 1 && says(s)
	})
	return s
}

func anything(store.ServerState) bool { return true }

// A running server has a heartbeat with its statistics, and deletes the heartbeat when it stops.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.server = serverOn(w.pool(), 1, Options{Interval: 20 * time.Millisecond, Logger: w.log.logger(), Version: "1.2.3"})
	began := w.Clock()
	stop := w.run()
	first := w.awaitServer(t, "server", anything)
	host, _ := os.Hostname()
	if first.Host != host || first.PID != os.Getpid() || first.Version != "1.2.3" || first.Interval != 20*time.Millisecond || first.Error != "" || first.Stale() {
		t.Errorf("server %+v", first)
	}
	if id := fmt.Sprintf(`^%s:%d:[0-9a-f]{8}$`, regexp.QuoteMeta(host), os.Getpid()); !regexp.MustCompile(id).MatchString(first.ID) {
		t.Errorf("ID %q, want %s", first.ID, id)
	}
	started := float64(first.Started.UnixMilli()) / 1000
	if started < began-0.01 || started > w.Clock() {
		t.Errorf("started at %.3f, it was begun at %.3f", started, began)
	}

	w.push("a", "t", 1)
	w.push("lease", "t", "2.0005")
	w.push("b", "u", 3)
	w.Do("ZADD", prefix+"job_pool", 1, "orphan")
	all := w.awaitServer(t, "state of all", func(s store.ServerState) bool { return s.Moved == 3 && s.Dropped == 1 })
	if all.ID != first.ID || !all.Started.Equal(first.Started) || all.Returned != 1 || all.Passes <= first.Passes || all.Lateness.Counts[len(store.LatenessBounds)] != 3 || all.Lateness.Sum < 3*1.6e9 {
		t.Errorf("server %+v\nwas %+v", all, first)
	}
	stop()
	if servers := w.servers(); len(servers) > 0 {
		t.Errorf("after the stop: %+v", servers)
	}
	w.log.expectErrors(t, "Job bucket has expired or is incomplete, job dropped, IDs: [orphan]")
}

// Several servers run side by side, two of them in one process. If one is killed, another one deletes its entry.
func TestHeartbeatOfSeveralServers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Do("HSET", prefix+"servers", "killed", `{"now":1,"started":1,"interval":1000,"lateness":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}`)
	if servers := w.servers(); len(servers) != 1 || !servers[0].Stale() {
		t.Fatalf("servers %+v", servers)
	}
	w.run()
	w.server = serverOn(w.pool(), 1, w.options())
	w.run()
	until(t, "both servers alone", func() bool {
		servers := w.servers()
		return len(servers) == 2 && servers[0].ID != "killed" && servers[1].ID != "killed" && servers[0].ID != servers[1].ID
	})
}

// A server that cannot write its heartbeat still moves jobs. The log has one line about it, and another one when it is
// over.
func TestHeartbeatThatIsRefused(t *testing.T) {
	t.Parallel()
	const line = "Cannot write this server's state to delayer:servers; jobs are moved all the same: "
	w := newWorld(t)
	w.Do("SET", prefix+"servers", "text")
	m := w.server
	now := time.Now()
	m.outages.now = func() time.Time { return now }
	m.heartbeat.begin("", time.Second, now)
	beat := func(after time.Duration) {
		t.Helper()
		w.push("a", "t", 1)
		if r := w.pass(); r.Moved != 1 {
			t.Errorf("moved %d", r.Moved)
		}
		now = now.Add(after)
		m.writeHeartbeat(t.Context(), now)
	}
	for range 20 {
		beat(renewEvery)
	}
	if info, lines := w.log.lines(); len(lines) != 1 || mention(lines, line) != 1 || mention(info, "over after") > 0 {
		t.Errorf("logged %.2000q", lines)
	}
	w.Do("DEL", prefix+"servers")
	beat(heartbeatEvery) // too early to try again
	if n := w.Do("EXISTS", prefix+"servers").(int64); n != 0 {
		t.Error("tried again at once")
	}
	beat(renewEvery)
	if info, lines := w.log.lines(); len(lines) != 1 || mention(info, "over after") != 1 {
		t.Errorf("logged %.2000q and %q", info, lines)
	}
	if servers := w.servers(); len(servers) != 1 || servers[0].Moved != 22 || !servers[0].Started.Equal(m.heartbeat.state.Started) {
		t.Errorf("servers %+v, want that it started at %v", servers, m.heartbeat.state.Started)
	}
}

// TestHeartbeatIsDue checks the times of heartbeats: once a second if anything but passes happened, every 10 s
// otherwise, and no earlier after a refusal.
func TestHeartbeatIsDue(t *testing.T) {
	moved := func(h *heartbeat) { h.moved(store.Moved{Batch: store.Batch{IDs: store.IDs{"a"}}}) }
	passed := func(h *heartbeat) { h.passed() }
	isDue := func(h *heartbeat, now time.Time) bool {
		_, isDue := h.next(now)
		return isDue
	}
	for name, c := range map[string]struct {
		does func(*heartbeat)
		want time.Duration
	}{
		"nothing":    {func(*heartbeat) {}, renewEvery},
		"a pass":     {passed, renewEvery},
		"a job":      {moved, heartbeatEvery},
		"a lease":    {func(h *heartbeat) { h.moved(store.Moved{Lapsed: 1}) }, heartbeatEvery},
		"lateness":   {func(h *heartbeat) { h.moved(store.Moved{Late: store.Lateness{Sum: 1}}) }, heartbeatEvery},
		"an orphan":  {func(h *heartbeat) { h.dropped(1) }, heartbeatEvery},
		"a failure":  {func(h *heartbeat) { h.failed(0, errors.New("no")) }, heartbeatEvery},
		"a refusal":  {func(h *heartbeat) { moved(h); h.refused = true }, renewEvery},
		"no refusal": {func(h *heartbeat) { moved(h); passed(h) }, heartbeatEvery},
	} {
		now := time.Now()
		h := new(heartbeat)
		h.begin("", time.Second, now)
		if !isDue(h, now) {
			t.Errorf("%s: not due at first", name)
		}
		h.told, h.tried = h.state, now
		c.does(h)
		if isDue(h, now.Add(c.want-1)) || !isDue(h, now.Add(c.want)) {
			t.Errorf("%s: not due after exactly %v", name, c.want)
		}
	}
	idle := &serverOn(new(redis.Pool), 1, Options{}).heartbeat
	moved(idle)
	if isDue(idle, time.Now()) {
		t.Error("due although it doesn't run")
	}
}

// A long pass does not delay heartbeats.
func TestHeartbeatDuringAPass(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const jobs = 5000
	w.many(jobs, 1)
	seen := false
	w.onLook(func(int) {
		for _, s := range w.servers() {
			seen = seen || s.Moved > 0 && s.Moved < jobs
		}
	})
	stop := w.run()
	w.log.awaitMoved(t, jobs)
	stop()
	if !seen {
		t.Error("nothing was said during the pass")
	}
}

// While Redis hangs, a stop does not wait for the deletion of the entry, which expires later.
func TestHeartbeatOfAStopWhileRedisHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.server = serverOn(w.poolWith(0), 1, w.options())
	w.server.heartbeat.begin("", time.Second, time.Now())
	w.server.writeHeartbeat(t.Context(), time.Now())
	if servers := w.servers(); len(servers) != 1 {
		t.Fatalf("servers %+v", servers)
	}
	w.Hang()
	defer w.Continue()
	signedOff := make(chan struct{})
	go func() {
		defer close(signedOff)
		w.server.signOff(t.Context())
	}()
	redistest.Receive(t, signedOff)
}

// A server searches for stale entries once a minute, and when a new entry appears.
func TestHeartbeatSweepsNowAndThen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := time.Now()
	w.server.heartbeat.begin("", time.Second, began)
	for _, c := range []struct {
		after time.Duration
		swept bool
	}{{0, true}, {renewEvery, false}, {sweepEvery - time.Second, false}, {sweepEvery + renewEvery, true}, {sweepEvery + 2*renewEvery, false}} {
		w.Do("HSET", prefix+"servers", "gone", "no entry")
		w.server.heartbeat.entries = 2 // there is only this entry
		w.server.writeHeartbeat(t.Context(), began.Add(c.after))
		if there := w.Do("HEXISTS", prefix+"servers", "gone").(int64); there == 1 == c.swept {
			t.Errorf("after %v: swept: %v", c.after, !c.swept)
		}
	}
}

// The log reports a Redis that comes back empty. It reports no entry that other servers deleted because its server was
// silent.
func TestForgottenByRedis(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		was     store.Entry
		written time.Duration // time since the last write; 0 if there was none
		want    bool
	}{
		{store.HadEntry, time.Second, false},
		{store.NoEntry, 0, false},
		{store.NoEntryNorHistory, 0, false},
		{store.NoEntry, time.Second, true},
		{store.NoEntry, 2 * time.Minute, false},
		{store.NoEntryNorHistory, 2 * time.Minute, true},
	} {
		now, h := time.Now(), heartbeat{}
		if c.written > 0 {
			h.written = now.Add(-c.written)
		}
		if got := h.isForgotten(c.was, now); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	w := newWorld(t)
	w.run()
	w.push("a", "t", 1)
	until(t, "it says how it fares", func() bool { return w.Do("HLEN", prefix+"servers") == int64(1) })
	w.Do("FLUSHALL")
	w.push("b", "t", 1)
	w.log.awaitError(t, "Redis has lost what this server wrote to "+prefix+"servers")
}
