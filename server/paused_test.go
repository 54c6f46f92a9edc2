package server

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

func (w *world) pause(topic string, d time.Duration) {
	w.TB.Helper()
	_, err := w.mover().store.Pause(topic, d, "").Do(w.TB.Context())
	check(w.TB, err)
}

// A pause ends by itself, without a client, even if the server polls rarely, because the pause is announced to the
// server.
func TestPauseEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options()
	o.Interval = longestSleep
	w.server = serverOn(w.pool(), 1, o)
	w.push("a", "t", 1)
	redistest.Background(w.TB, w.server.Run)
	w.log.awaitMoved(t, 1)
	until(t, "the subscription", func() bool {
		return !w.mover().missesPushes.Load() && len(w.Strings("PUBSUB", "CHANNELS", prefix+"first_due")) > 0
	})
	began := time.Now()
	w.pause("t", 1500*time.Millisecond)
	w.Expect(redistest.State{Paused: queues{"t": {"a"}}, Buckets: buckets{"a": "t body"}})
	w.log.awaitInfo(t, "Pause is over, Topic: t")
	if took := time.Since(began); took < 1500*time.Millisecond {
		t.Errorf("it is over after %v", took)
	}
	w.Expect(redistest.State{Ready: queues{"t": {"a"}}, Buckets: buckets{"a": "t body"}})
	w.log.expectErrors(t)
}

// A server continues with paused topics at once while there is more to do, one step at a time, with passes in between.
// Then it rests, longer if there are more topics.
func TestPausesGoOnAtOnce(t *testing.T) {
	t.Parallel()
	const entries, topics = 5500, 1000
	w := newWorld(t)
	w.Do("RPUSH", prefix+"ready_queue:t", "first")
	w.pause("t", time.Hour)
	w.Do("EVAL", "for i = 1, ARGV[1] do redis.call('LPUSH', KEYS[1], i) end", 1, prefix+"ready_queue:t", entries)
	l := &loop{server: w.server, movers: w.server.movers, work: t.Context()}
	steps := func(now time.Time) (steps int) {
		for l.pauses.next = now; l.pauses.next == now; steps++ {
			l.keepPaused(now)
		}
		return steps
	}
	now := time.Now()
	if got := steps(now); got != 6 || w.Do("LLEN", prefix+"paused_queue:t") != int64(entries+1) {
		t.Errorf("in %d steps %v entries are set aside", got, w.Do("LLEN", prefix+"paused_queue:t"))
	}
	if !l.pauses.next.Equal(now.Add(pausesEvery)) || !l.pauses.rested.Equal(now.Add(pausesRest)) {
		t.Errorf("next in %v, at the earliest in %v", l.pauses.next.Sub(now), l.pauses.rested.Sub(now))
	}
	for i := range topics {
		w.pause(fmt.Sprint("t", i), time.Millisecond*time.Duration(500*(1+i%2)+3_600_000*(i%2)))
	}
	now = now.Add(2 * pausesEvery)
	got := steps(now)
	pages := l.pauses.rested.Sub(now) / pausesRest
	if got < 3 || int(pages) != got {
		t.Errorf("%d steps and %d pages of %d topics", got, pages, topics)
	}
	if next := l.pauses.next; next.Before(l.pauses.rested) || next.After(now.Add(pausesEvery)) {
		t.Errorf("next in %v, with %d pages", next.Sub(now), pages)
	}
	was := l.pauses.rested
	l.keepPaused(was.Add(-time.Millisecond)) // woken by another event, or by the end of a pause
	if l.pauses.walk != nil || l.pauses.next.Before(was) {
		t.Error("it does not rest")
	}
}

// A pause is ended once, by one of several servers or by a pass. Jobs that become ready meanwhile are moved, but not
// delivered.
func TestPausedTopicsAreMoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pause("t", time.Hour)
	w.push("a", "t", 1)
	w.push("b", "u", 1)
	check(t, w.server.Pass(t.Context()))
	w.Expect(redistest.State{Paused: queues{"t": {"a"}}, Ready: queues{"u": {"b"}}, Buckets: buckets{"a": "t body", "b": "u body"}})
	w.Do("LPUSH", prefix+"ready_queue:t", "b") // as an original server does
	check(t, w.server.Pass(t.Context()))
	w.Expect(redistest.State{Paused: queues{"t": {"a", "b"}}, Ready: queues{"u": {"b"}}, Buckets: buckets{"a": "t body", "b": "u body"}})
	w.pause("t", time.Millisecond)
	until(t, "the end", func() bool {
		check(t, w.server.Pass(t.Context()))
		info, _ := w.log.lines()
		return mention(info, "Pause is over, Topic: t") == 1
	})
	check(t, w.server.Pass(t.Context()))
	info, _ := w.log.lines()
	if mention(info, "Pause is over") != 1 {
		t.Errorf("%q", info)
	}
	w.log.expectErrors(t)
}

// A server without one of the permissions for pauses logs that and still moves jobs. Pauses do not end then.
func TestPausesWithoutRights(t *testing.T) {
	t.Parallel()
	for command, says := range map[string]string{
		"lmove": "LMOVE on " + prefix + "ready_queue:", "rename": "RENAME on " + prefix + "ready_queue:", "hset": "HSET on " + prefix + "paused",
		"hdel": "HDEL on " + prefix + "paused", "hlen": "", "hscan": "",
	} {
		t.Run(command, func(t *testing.T) {
			w := newWorld(t)
			w.push("a", "t", 1)
			check(t, w.server.Pass(t.Context()))
			w.pause("t", time.Millisecond)
			until(t, "its time is over", func() bool {
				paused, err := w.mover().store.Paused(t.Context())
				check(t, err)
				return len(paused) == 0
			})
			w.push("b", "u", 1)
			w.user(daemonRights + " -" + command)
			for range 2 {
				check(t, w.server.Pass(t.Context()))
			}
			_, problems := w.log.lines()
			if want := pausesFail + ": NOPERM this user has no permissions to run " + says; says != "" && mention(problems, want) != 1 || mention(problems, pausesFail) != 1 {
				t.Errorf("the log has %q, want %q once", problems, want)
			}
			w.Expect(redistest.State{Paused: queues{"t": {"a"}}, Ready: queues{"u": {"b"}}, Buckets: buckets{"a": "t body", "b": "u body"}})
		})
	}
}

// While no topic is paused, all partitions of a Redis are checked for pauses with one command. A partition whose keys may not be read hides no other.
func TestPausesCostOneCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.partitioned(16)
	numbers := func() (list []int) {
		for _, m := range withPauses(t.Context(), w.server.movers) {
			list = append(list, m.number)
		}
		return list
	}
	before := w.Calls("exists")
	if some := numbers(); len(some) > 0 || w.Calls("exists")-before != 1 {
		t.Errorf("without pauses: partitions %d, %d EXISTS", some, w.Calls("exists")-before)
	}
	check(t, p.Pause(t.Context(), "t", time.Hour, ""))
	if some := numbers(); len(some) != 16 {
		t.Errorf("with a pause: partitions %d", some)
	}
	w.SetUser("~delayer:{0}:* ~delayer:{3}:* ~delayer:{5}:* +@all")
	_, err := p.Stores[5].Resume("t").Do(t.Context())
	check(t, err)
	w.server = serverOn(w.poolWith(3*time.Second, redis.DialUsername("u"), redis.DialPassword("p")), 16, Options{})
	if some := numbers(); !slices.Equal(some, []int{0, 3}) {
		t.Errorf("with keys of three partitions: partitions %d, want 0 and 3", some)
	}
}
