package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// sweepAll sweeps to the end. It returns the entries that were gone, by topic, and the numbers of forgotten topics and of calls.
func (b *backend) sweepAll(t *testing.T) (gone map[string][]string, forgotten, calls int) {
	t.Helper()
	gone = map[string][]string{}
	for swept := (Swept{More: true}); swept.More; calls++ {
		if calls > 10000 {
			t.Fatal("it does not end")
		}
		var err error
		if swept, err = b.Sweep(t.Context(), swept.Last); err != nil {
			t.Fatal(err)
		}
		for _, stale := range swept.Gone {
			gone[stale.Topic] = append(gone[stale.Topic], stale.IDs.Strings()...)
		}
		forgotten += swept.Forgotten
	}
	return gone, forgotten, calls
}

// enterTopic registers a topic that was last used this long ago.
func (b *backend) enterTopic(t *testing.T, topic string, ago time.Duration) {
	t.Helper()
	b.do(t, "ZADD", b.keys.Topics(), fmt.Sprintf("%.0f", b.clock(t)-ago.Seconds()), topic)
}

func (b *backend) topicsKnown(t *testing.T) []string {
	t.Helper()
	names := b.With(t).Strings("ZRANGE", b.keys.Topics(), 0, -1)
	slices.Sort(names)
	return names
}

// Entries without a job at the end of a queue are removed, as by a pop.
func TestSweepOfQueues(t *testing.T) {
	job := func(id, topic string) string { return topic + " body of " + id }
	for _, c := range []struct {
		name string
		seed [][]command
		gone []string
		want redistest.State
	}{
		{"a job", [][]command{ready("a", "t")}, nil, redistest.State{Ready: queues{"t": {"a"}}, Buckets: buckets{"a": job("a", "t")}}},
		{"ghosts before a job", [][]command{ghosts("t", 3), ready("a", "t")}, ghostIDs(3), redistest.State{Ready: queues{"t": {"a"}}, Buckets: buckets{"a": job("a", "t")}}},
		{"many before it", [][]command{ghosts("t", 1300), ready("a", "t")}, ghostIDs(1300), redistest.State{Ready: queues{"t": {"a"}}, Buckets: buckets{"a": job("a", "t")}}},
		{"ghosts alone", [][]command{ghosts("t", 700)}, ghostIDs(700), redistest.State{}},
		{"as many as are read at a time", [][]command{ghosts("t", 51), ready("a", "t")}, ghostIDs(51), redistest.State{Ready: queues{"t": {"a"}}, Buckets: buckets{"a": job("a", "t")}}},
		{"behind a job", [][]command{ready("a", "t"), ghosts("t", 2)}, nil, redistest.State{Ready: queues{"t": {"a", "ghost1", "ghost2"}}, Buckets: buckets{"a": job("a", "t")}}},
		{"a job that waits again", [][]command{waits("a", "t", 3600*second), entry("a", "t")}, nil, redistest.State{Pool: []string{"a"}, Buckets: buckets{"a": job("a", "t")}}},
		{"an orphan of the pool, which is counted there", [][]command{{{"ZADD", "delayer:job_pool", "9e9", "a"}}, entry("a", "t")}, nil, redistest.State{Pool: []string{"a"}}},
		{"one without a topic", [][]command{{{"HSET", "delayer:job_bucket:a", "body", "b"}}, entry("a", "t")}, []string{"a"}, redistest.State{Buckets: buckets{"a": " b"}}},
		{"one that is no hash", [][]command{text("job_bucket:a"), entry("a", "t")}, []string{"a"}, redistest.State{Other: buckets{"delayer:job_bucket:a": "string"}}},
		{"one of another topic", [][]command{ready("b", "u"), content("a", "u"), entry("a", "t")}, nil,
			redistest.State{Ready: queues{"u": {"b", "a"}}, Buckets: buckets{"a": job("a", "u"), "b": job("b", "u")}}},
		{"one that was pushed to another topic", [][]command{ready("a", "u"), entry("a", "t")}, nil, redistest.State{Ready: queues{"u": {"a"}}, Buckets: buckets{"a": job("a", "u")}}},
		{"one of a topic whose queue is none", [][]command{content("a", "u"), text("ready_queue:u"), entry("a", "t")}, nil,
			redistest.State{Pool: []string{"a"}, Buckets: buckets{"a": job("a", "u")}, Other: buckets{"delayer:ready_queue:u": "string"}}},
		{"a queue that is none", [][]command{text("ready_queue:t")}, nil, redistest.State{Other: buckets{"delayer:ready_queue:t": "string"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, b *backend) {
				b.seed(t, c.seed...)
				b.enterTopic(t, "t", 0)
				gone, _, _ := b.sweepAll(t)
				if !slices.Equal(gone["t"], c.gone) || len(gone) > 1 {
					t.Errorf("gone are %q, want %q", gone, c.gone)
				}
				b.expect(t, c.want)
				if again, _, calls := b.sweepAll(t); len(again) > 0 || calls != 1 {
					t.Errorf("the second time %q are gone, in %d calls", again, calls)
				}
				b.expect(t, c.want)
			})
		})
	}
}

// A topic without jobs is forgotten an hour after its last use, and no sooner. A topic with jobs counts as used.
func TestSweepForgets(t *testing.T) {
	const old, young = 61 * time.Minute, 59 * time.Minute
	for _, c := range []struct {
		name string
		ago  time.Duration
		seed [][]command
		kept bool
	}{
		{"nothing", old, nil, false},
		{"nothing, but not for long", young, nil, true},
		{"a ready job", old, [][]command{ready("a", "t")}, true},
		{"ghosts", old, [][]command{ghosts("t", 3)}, false},
		{"a queue that is none", old, [][]command{text("ready_queue:t")}, true},
		{"dead letters", old, [][]command{{{"ZADD", "delayer:dead_letters:t", 1, "d"}}}, true},
		{"a reserved job", old, [][]command{{{"HSET", "delayer:reserved", "t", 1}, {"ZADD", "delayer:job_pool", 60 * second, "x"}}}, true},
		{"a number of reserved jobs that can't be", old, [][]command{{{"HSET", "delayer:reserved", "t", 1}}}, false},
		{"less than none that are reserved", old, [][]command{{{"HSET", "delayer:reserved", "t", -3}, {"ZADD", "delayer:job_pool", 60 * second, "x"}}}, false},
		{"a job that waits for long", old, [][]command{{{"ZADD", "delayer:topics_due", 60 * second, "t"}}}, true},
		{"one that waited", old, [][]command{{{"ZADD", "delayer:topics_due", -60 * second, "t"}}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, b *backend) {
				b.seed(t, c.seed...)
				b.enterTopic(t, "t", c.ago)
				b.enterTopic(t, "busy", 0)
				want := []string{"busy"}
				if c.kept {
					want = append(want, "t")
				}
				_, forgotten, _ := b.sweepAll(t)
				if got := b.topicsKnown(t); !slices.Equal(got, want) || forgotten != 2-len(want) {
					t.Errorf("known are %q, %d forgotten; want %q", got, forgotten, want)
				}
				if used, _ := b.use(t, "t"); c.kept && c.ago == old && used > 61 {
					t.Errorf("it was used %.0f s ago", used)
				}
			})
		})
	}
}

// Wrong numbers of reserved jobs are corrected, and numbers of 0 are deleted.
func TestSweepOfReserved(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, waits("far", "t", 48*3600*second), waits("a", "t", 60*second), waits("b", "t", 23*3600*second))
		for topic, count := range map[string]any{"none": 0, "less": -3, "true": 1, "most": 2, "more": 3, "no number": "x"} {
			b.enterTopic(t, topic, 0)
			b.do(t, "HSET", b.keys.Reserved(), topic, count)
		}
		b.sweepAll(t)
		got, err := redis.StringMap(b.do(t, "HGETALL", b.keys.Reserved()), nil)
		if want := (map[string]string{"true": "1", "most": "2", "more": "2"}); err != nil || !maps.Equal(got, want) {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
	})
}

// A call handles a bounded number of topics and entries. Repeated calls handle all of them, whatever their names, even if some are used
// meanwhile.
func TestSweepIsBounded(t *testing.T) {
	b, _ := onRedis(t, alone)
	const topics = 1050
	b.do(t, "EVAL", `for i = 1, ARGV[1] do
		redis.call('ZADD', 'delayer:topics', i % 3, 'old' .. i)
		redis.call('HSET', 'delayer:reserved', 'old' .. i, 0)
		redis.call('ZADD', 'delayer:topics_due', i, 'old' .. i)
	end`, 0, topics)
	b.do(t, "ZADD", b.keys.Topics(), 1, "a\x00", 1, "a", 1, strings.Repeat("x", 2000))
	for _, topic := range []string{"busy", "a\x00"} {
		b.do(t, "EVAL", "for i = 1, 3000 do redis.call('LPUSH', KEYS[1], 'ghost' .. i) end", 1, b.keys.ReadyQueue(topic))
	}
	b.enterTopic(t, "busy", 0)
	b.do(t, "CONFIG", "RESETSTAT")
	gone, forgotten, calls := b.sweepAll(t)
	if forgotten != topics+3 || len(gone["busy"]) != 3000 || len(gone["a\x00"]) != 3000 {
		t.Errorf("%d forgotten, %d and %d gone", forgotten, len(gone["busy"]), len(gone["a\x00"]))
	}
	if least := topics/sweepTopics + 6000/sweepEntries; calls < least || calls > least+3 {
		t.Errorf("%d calls, want %d", calls, least)
	}
	b.do(t, "DEL", b.keys.ReadyQueue("busy"), b.keys.Topics())
	b.sweepAll(t)
	b.expect(t, redistest.State{})
	if keys := b.With(t).Strings("KEYS", "*"); len(keys) > 0 {
		t.Errorf("left are %q", keys)
	}
}

// Data that a sweep can't read counts as present. With a key of another type it changes nothing and returns the error. See
// TestWithoutPermission for other permissions.
func TestSweepWithoutPermission(t *testing.T) {
	t.Parallel()
	b, user := onRedisAs(t)
	for _, command := range []string{"hget", "exists", "hmget"} {
		t.Run(command, func(t *testing.T) {
			b.do(t, "ACL", "SETUSER", "u", "+@all")
			b.seed(t, ready("a", "t"))
			if command != "hget" {
				b.seed(t)
			}
			b.enterTopic(t, "t", 2*time.Hour)
			was := b.state(t)
			b.do(t, "ACL", "SETUSER", "u", "-"+command)
			if swept, err := user.Sweep(t.Context(), Position{}); err != nil || swept.Forgotten > 0 || len(swept.Gone) > 0 {
				t.Errorf("%+v, %v", swept, err)
			}
			b.expect(t, was)
		})
	}
	for _, key := range []string{"topics", "job_pool"} {
		b.do(t, "ACL", "SETUSER", "u", "+@all")
		b.seed(t, ghosts("t", 3))
		b.enterTopic(t, "t", 0)
		b.do(t, "DEL", "delayer:"+key)
		b.do(t, "SET", "delayer:"+key, "text")
		was := b.state(t)
		_, err := user.Sweep(t.Context(), Position{})
		b.expectError(t, err, "WRONGTYPE")
		b.expect(t, was)
	}
}

// Each query returns its connection to the pool.
func TestLooksGiveConnectionsBack(t *testing.T) {
	_, server := onRedis(t)
	pool := server.Pool()
	pool.MaxActive, pool.Wait = 1, true
	s := New(pool, server.Prefix)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for name, look := range map[string]func() error{
		"overdue":      func() error { return errOf(s.Overdue().Do(ctx)) },
		"stats":        func() error { _, err := s.Stats(ctx, []string{"t"}, true); return err },
		"known topics": func() error { _, _, err := s.KnownTopics(ctx, 10, ""); return err },
		"is known":     func() error { _, err := s.IsKnown(ctx, "t"); return err },
		"sweep":        func() error { _, err := s.Sweep(ctx, Position{}); return err },
	} {
		for range 2 {
			if err := look(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
}

// IDs of Once whose window is over are removed, with any number of IDs and topics. The others stay.
func TestSweepOfOnce(t *testing.T) {
	for _, topics := range []int{0, 1, 250} {
		onEach(t, func(t *testing.T, b *backend) {
			for i := range topics {
				b.enterTopic(t, fmt.Sprint("t", i), 0)
			}
			for i := range 1700 {
				b.do(t, "ZADD", b.keys.Once(), 1000+i, fmt.Sprint("old ", i))
			}
			for _, window := range []time.Duration{time.Minute, 24 * time.Hour} {
				check(t, errOf(b.pushed(t, window.String(), time.Hour, Once(window))))
			}
			b.sweepAll(t)
			if got, want := b.state(t).Once, []string{"1m0s", "24h0m0s"}; !slices.Equal(got, want) {
				t.Errorf("%d topics: %d IDs are kept, want %q", topics, len(got), want)
			}
			if n := len(b.topicsKnown(t)); n < topics {
				t.Errorf("%d topics are known, want %d", n, topics)
			}
		})
	}
}

// A key of another type in place of those IDs does not stop the sweep of topics.
func TestSweepWithBrokenOnce(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.do(t, "SET", b.keys.Once(), "x")
		b.enterTopic(t, "t", 2*time.Hour)
		if _, forgotten, _ := b.sweepAll(t); forgotten != 1 {
			t.Errorf("%d topics are forgotten, want 1", forgotten)
		}
	})
}

// A wrong number of reserved jobs becomes the number of leases; the marks of limits stay. A number that has changed since
// it was read is left as it is, and 0 is not stored.
func TestFsckReserved(t *testing.T) {
	b, _ := onRedis(t)
	marked := func(n int) string { return fmt.Sprint(2*limitMark + n) }
	b.do(t, "HSET", "delayer:reserved", "none", 5, "more", 1, "negative", -2, "limited", marked(7), "changed", 4)
	corrected, err := b.FsckReserved([]ReservedCount{
		{"none", "5", 0}, {"more", "1", 3}, {"negative", "-2", 2}, {"limited", marked(7), 3}, {"changed", "3", 9}, {"missing", "0", 1},
	}).Do(t.Context())
	if want := []string{"none", "more", "negative", "limited", "missing"}; err != nil || !slices.Equal(corrected, want) {
		t.Errorf("corrected %q, %v, want %q", corrected, err, want)
	}
	kept, err := redis.StringMap(b.do(t, "HGETALL", "delayer:reserved"), nil)
	want := map[string]string{"more": "3", "negative": "2", "limited": marked(3), "changed": "4", "missing": "1"}
	if err != nil || !maps.Equal(kept, want) {
		t.Errorf("the numbers are %v, %v, want %v", kept, err, want)
	}
}
