package client_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// stats returns Stats and the numbers of this topic.
func (f *fixture) stats(topic string) (s client.Stats, of client.TopicStats) {
	f.TB.Helper()
	s, err := f.Stats(f.TB.Context())
	check(f.TB, err)
	for _, t := range s.Topics {
		if t.Topic == topic {
			of = t
		}
	}
	return s, of
}

// The numbers follow a job through its life.
func TestStats(t *testing.T) {
	f := start(t, undivided)
	expect := func(after string, waiting int, want client.TopicStats) {
		t.Helper()
		want.Topic = "t"
		if s, got := f.stats("t"); got != want || s.Waiting != waiting {
			t.Errorf("after %s: %+v, %d wait, want %+v, %d", after, got, s.Waiting, want, waiting)
		}
	}
	if s, _ := f.stats("t"); s.Waiting != 0 || len(s.Topics) != 0 {
		t.Errorf("of an empty Redis: %+v", s)
	}
	type ts = client.TopicStats
	check(t, errOf(f.PushBatch(t.Context(), jobs(0, 3, "t", 0))))
	expect("pushes", 0, ts{Ready: 3})
	check(t, errOf(f.PushBatch(t.Context(), jobs(3, 2, "t", time.Hour))))
	expect("pushes with a delay", 2, ts{Ready: 3})
	first, second := f.reserve("t"), f.reserve("t")
	expect("two reserves", 2, ts{Ready: 1, Reserved: 2})
	check(t, first.Extend(t.Context(), time.Hour))
	expect("Extend", 2, ts{Ready: 1, Reserved: 2})
	check(t, first.Ack(t.Context()))
	expect("Ack", 2, ts{Ready: 1, Reserved: 1})
	check(t, second.Retry(t.Context(), time.Hour))
	expect("Retry", 3, ts{Ready: 1})
	check(t, f.reserve("t").Release(t.Context()))
	expect("Release", 3, ts{Ready: 1})
	last := f.reserve("t")
	check(t, last.Bury(t.Context(), "bad"))
	expect("Bury", 3, ts{Dead: 1})
	check(t, f.Requeue(t.Context(), last.ID))
	expect("Requeue", 3, ts{Ready: 1})
	f.reserve("t")
	check(t, f.Reschedule(t.Context(), "0002", time.Hour))
	expect("Reschedule of a reserved job", 4, ts{})
	check(t, f.Reschedule(t.Context(), "0002", 0))
	f.reserve("t")
	f.push("0002", "t")
	expect("a push of a reserved job", 3, ts{Ready: 1})
	f.reserve("t")
	check(t, errOf(f.Remove(t.Context(), "0002")))
	expect("Remove of a reserved job", 3, ts{})
	f.push("a", "t")
	check(t, f.reserve("t").Extend(t.Context(), time.Millisecond))
	f.serve()
	until(t, "the lease has ended and the job was moved", func() bool { _, got := f.stats("t"); return got == ts{Topic: "t", Ready: 1} })
	check(t, errOf(f.Pop(t.Context(), "t")))
	expect("Pop", 3, ts{})
}

// Schedules count as waiting, but their topic is not listed.
func TestStatsOfSchedules(t *testing.T) {
	f := start(t)
	f.serve()
	check(t, errOf(f.Schedule(t.Context(), client.Schedule{Name: "tick", Every: 50 * time.Millisecond, Topic: "t", Body: "b"})))
	until(t, "it has fired", func() bool { return f.scheduled("tick").Jobs > 1 })
	if s, of := f.stats("t"); len(s.Topics) != 1 || of.Ready == 0 {
		t.Errorf("%+v, want topic t alone", s)
	}
}

// Each of many topics is returned once, in order, even if new topics become known meanwhile.
func TestStatsOfManyTopics(t *testing.T) {
	t.Parallel()
	f := start(t, undivided)
	for _, topics := range []int{500, 501, 1700} {
		f.Flush()
		f.Do("EVAL", `for i = 0, ARGV[1] - 1 do
			local topic = string.format('t%05d', i)
			redis.call('ZADD', 'delayer:topics', 0, topic)
			redis.call('LPUSH', 'delayer:ready_queue:' .. topic, 'a')
		end`, 0, topics)
		f.put(client.Message{ID: "w", Topic: "t00000", Body: "b"}, time.Hour)
		f.push("r", "t00000")
		f.reserve("t00000")
		f.Do("LPUSH", "delayer:ready_queue:t00000", "a")
		want := make([]client.TopicStats, topics)
		for n := range want {
			want[n] = client.TopicStats{Topic: fmt.Sprintf("t%05d", n), Ready: 1}
		}
		want[0].Reserved = 1
		for _, changes := range []bool{false, true} {
			stop := func() {}
			if changes { // new topics sort before the others and shift them
				conn := f.dial()
				stop = redistest.Background(t, func(ctx context.Context) error {
					for n := 0; ctx.Err() == nil; n++ {
						conn.Do("ZADD", f.Prefix+"topics", 0, fmt.Sprint("a", n))
					}
					return nil
				})
			}
			for range 8 {
				s, _ := f.stats("")
				if !slices.IsSortedFunc(s.Topics, func(a, b client.TopicStats) int { return strings.Compare(a.Topic, b.Topic) }) {
					t.Error("not in order")
				}
				old := slices.DeleteFunc(s.Topics, func(topic client.TopicStats) bool { return topic.Topic[0] == 'a' })
				if s.Waiting != 1 || !slices.Equal(old, want) {
					t.Fatalf("%d wait, want 1; %d topics: %+v", s.Waiting, len(old), old)
				}
			}
			stop()
		}
	}
}

// A broken key, or a number that drifts, affects no other number.
func TestStatsOfBrokenKeys(t *testing.T) {
	f := start(t, undivided)
	f.push("a", "good")
	f.push("b", "broken")
	f.Do("DEL", "delayer:ready_queue:broken")
	f.Do("SET", "delayer:ready_queue:broken", "x")
	f.Do("SET", "delayer:dead_letters:broken", "x")
	f.Do("HSET", "delayer:reserved", "good", -3)
	s, _ := f.stats("")
	want := []client.TopicStats{{Topic: "broken", Ready: -1, Dead: -1}, {Topic: "good", Ready: 1}}
	if !slices.Equal(s.Topics, want) || s.Waiting != 0 {
		t.Errorf("%+v, want %+v", s, want)
	}
	f.Do("HSET", "delayer:reserved", "good", 7) // more than the pool has
	if s, got := f.stats("good"); s.Waiting != 0 || got.Reserved != 7 {
		t.Errorf("%+v, %+v", s, got)
	}
	f.Do("SET", "delayer:topics", "x")
	_, err := f.Stats(t.Context())
	expectText(t, "Stats", err, "delayer: stats: ", "WRONGTYPE")
}

// Counters also count stale entries of a reserve.
func TestCountersOfReserves(t *testing.T) {
	f := start(t, undivided)
	f.Do("LPUSH", "delayer:ready_queue:t", "gone", "gone too")
	f.push("a", "t")
	var stale []string
	c := f.open(client.WithStaleHook(func(ids []string) { stale = append(stale, ids...) }))
	f.reserveBy(c, "t", "a", time.Minute)
	if got := c.Counters(); got != (client.Counters{Stale: 2}) || !slices.Equal(stale, []string{"gone", "gone too"}) {
		t.Errorf("counted %+v, told of %q", got, stale)
	}
}
