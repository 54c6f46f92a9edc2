package server

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// enterTopics registers topics that were last used this long ago.
func (w *world) enterTopics(ago time.Duration, topics ...string) {
	w.TB.Helper()
	for _, topic := range topics {
		w.Do("ZADD", prefix+"topics", int64(w.Clock()-ago.Seconds()), topic)
	}
}

func (w *world) topics() []string {
	w.TB.Helper()
	return w.Strings("ZRANGE", prefix+"topics", 0, -1)
}

// A running server also sweeps, and its entry has the number of expired jobs.
func TestRunSweeps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.enterTopics(0, "t")
	w.enterTopics(2*time.Hour, "dead")
	w.Do("LPUSH", prefix+"ready_queue:t", "a", "b")
	w.Do("HSET", prefix+"reserved", "dead", 0)
	defer w.run()()
	w.awaitServer(t, "count of what was dropped", func(s store.ServerState) bool { return s.Dropped == 2 })
	if topics := w.topics(); !slices.Equal(topics, []string{"t"}) {
		t.Errorf("known are %q", topics)
	}
	w.Expect(redistest.State{})
}

// A sweep begins a minute after the last one ended.
func TestSweepsAreSeldom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.enterTopics(2*time.Hour, "t")
	m := w.mover()
	known := m.sweepTopics()
	m.sweeps = []*sweep{known}
	sweep := func(what string, topics ...string) {
		t.Helper()
		if m.goOnSweeping(t.Context()); !slices.Equal(w.topics(), topics) {
			t.Errorf("%s: known are %q, want %q", what, w.topics(), topics)
		}
	}
	sweep("at first")
	w.enterTopics(2*time.Hour, "t")
	sweep("at once", "t")
	known.ended = known.ended.Add(time.Second - sweepAfter)
	sweep("a little later", "t")
	known.ended = known.ended.Add(-time.Second)
	sweep("a minute later")
}

// Jobs do not wait for a sweep, even with very many topics: the sweep continues between passes until it is done.
func TestSweepsInTurns(t *testing.T) {
	t.Parallel()
	const topics = 50_000 // takes longer than one turn
	for name, c := range map[string]struct {
		each, last string // writes for topic i and for the last topic
		says       string
		known      []string // nil while topics with dead letters are being registered
	}{
		"known topics": {
			"redis.call('ZADD', 'delayer:topics', i, 't' .. i)",
			"redis.call('ZADD', 'delayer:topics', redis.call('TIME')[1], 'last') redis.call('LPUSH', 'delayer:ready_queue:last', 'ghost')",
			"Ready job has expired or was removed, entry dropped, Topic: last, IDs: [ghost]", []string{"last"},
		},
		"dead letters": {
			"redis.call('ZADD', 'delayer:dead_letters:t' .. i, i, 'a' .. i) redis.call('ZADD', 'delayer:dead_topics', i, 't' .. i)",
			"redis.call('ZADD', 'delayer:dead_letters:t50000', 1e12, 'b', 2e12, 'c')",
			"Dead letters dropped, 2 too old or too many, Topic: t50000, IDs: [a50000,b]", nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Do("EVAL", "for i = 1, tonumber(ARGV[1]) do "+c.each+" end "+c.last, 0, topics)
			passes := newCounter()
			w.server = serverOn(w.pool(), 1, Options{Logger: w.log.logger(), Interval: time.Minute, DeadMaxAge: -1, DeadMax: 1, Hooks: passes.hooks()})
			defer w.run()()
			until(t, c.says, func() bool {
				info, errors := w.log.lines()
				return mention(append(info, errors...), c.says) > 0
			})
			if known := w.topics(); c.known != nil && !slices.Equal(known, c.known) {
				t.Errorf("%d topics are known", len(known))
			}
			passes.mu.Lock()
			defer passes.mu.Unlock()
			if passes.passes < 2 {
				t.Error("the sweep has kept the passes waiting")
			}
		})
	}
}

// Without permission to sweep, the server logs that once and still moves jobs.
func TestSweepWithoutPermission(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Do("LPUSH", prefix+"ready_queue:t", "ghost")
	w.enterTopics(2*time.Hour, "u")
	w.user(daemonRights + " -rpop")
	w.push("a", "t", 1)
	for range 3 {
		w.mover().sweepTopics().goOn(t.Context())
	}
	w.log.expectErrorsWith(t, "Ready queues and known topics cannot be swept; jobs are moved all the same: ")
	w.expectPass(1, 0)
	w.Expect(redistest.State{Ready: queues{"t": {"ghost", "a"}}, Buckets: buckets{"a": "t body"}})
}

// The log reports once how many ready jobs of all partitions cannot be reserved because they lack their limit's tag,
// even with only the daemon's permissions. It leaves out topics without such jobs and limits without a tag.
func TestUntaggedIsLogged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.partitioned(4)
	check(t, p.SetLimit(t.Context(), "t", store.Limit{Concurrency: 4, Tag: "vip"}))
	check(t, p.SetLimit(t.Context(), "other", store.Limit{Concurrency: 4, Tag: "vip"}))
	check(t, p.SetLimit(t.Context(), "untagged", store.Limit{Concurrency: 4}))
	elsewhere := 0
	for i := range 30 {
		id := fmt.Sprint(i)
		w.pushIn(p, id, "t", 0)
		w.pushIn(p, "u"+id, "untagged", 0)
		w.pushIn(p, fmt.Sprintf("{vip}%d", i), "other", 0)
		if p.Of(id) != p.Of("{vip}") {
			elsewhere++
		}
	}
	o := w.server.options
	w.SetUser(redistest.Rights(t, "daemon"))
	w.server = serverOn(w.UserPool(), 4, o)
	want := fmt.Sprintf("Ready jobs without the tag \"vip\" of their topic's limit, which nobody will get: %d; set a limit without a tag, or push them again with that tag in their IDs, Topic: t", elsewhere)
	for range 3 {
		check(t, w.server.Pass(t.Context()))
		w.log.expectErrors(t, want)
	}
	w.server.untagged.Forget("t")
	check(t, w.server.Pass(t.Context()))
	w.log.expectErrors(t, want, want)
}

// Ready jobs that are about to expire become dead letters, with the daemon's permissions; they are logged and counted. Where only clients of the
// original push, jobs expire as with its server.
func TestExpiringJobsAreBuried(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.partitioned(1).Of("a")
	errs, err := s.Push([]store.Delayed{
		{Job: store.Job{ID: "a", Topic: "t", Body: "b"}, Terms: store.Terms{Lifetime: store.DefaultLifetime, MaxAttempts: 3}},
		{Job: store.Job{ID: "b", Topic: "t", Body: "b"}, Terms: store.Terms{Lifetime: store.DefaultLifetime}},
	}).Do(t.Context())
	check(t, cmp.Or(append(errs, err)...))
	for id, topic := range map[string]string{"c": "t", "o": "old"} {
		w.Do("HMSET", prefix+"job_bucket:"+id, "topic", topic, "body", "b")
		w.Do("LPUSH", prefix+"ready_queue:"+topic, id)
	}
	for _, id := range []string{"a", "b", "c", "o"} {
		w.Do("PEXPIRE", prefix+"job_bucket:"+id, 60_000)
	}
	w.enterTopics(0, "old")
	w.user(daemonRights)
	defer w.run()()
	w.awaitServer(t, "count of what has expired", func(s store.ServerState) bool { return s.Dropped == 3 })
	w.log.expectErrorsWith(t, "Ready job has expired and is a dead letter now, Topic: t, IDs: [a,b,c]")
	w.Expect(redistest.State{
		Ready: queues{"old": {"o"}}, Buckets: buckets{"o": "old b"},
		Dead: queues{"t": {"a", "b", "c"}}, Letters: buckets{"a": "t b", "b": "t b", "c": "t b"},
	})
	if ttl := w.Lifetimes()["o"]; ttl <= 0 || ttl > time.Minute {
		t.Errorf("the other job expires in %v", ttl)
	}
}
