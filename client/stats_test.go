package client_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
)

// stats are Stats, and the one topic's numbers.
func (f *fixture) stats(topic string) (s client.Stats, of client.TopicStats) {
	f.t.Helper()
	s, err := f.Stats(f.t.Context())
	check(f.t, err)
	for _, t := range s.Topics {
		if t.Topic == topic {
			of = t
		}
	}
	return s, of
}

// The numbers follow a job through its life.
func TestStats(t *testing.T) {
	f := start(t)
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
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	type ts = client.TopicStats
	_, err := f.PushBatch(t.Context(), jobs(0, 3, "t", 0))
	check(err)
	expect("pushes", 0, ts{Ready: 3})
	_, err = f.PushBatch(t.Context(), jobs(3, 2, "t", time.Hour))
	check(err)
	expect("pushes with a delay", 2, ts{Ready: 3})
	first, second := f.reserve("t"), f.reserve("t")
	expect("two reserves", 2, ts{Ready: 1, Reserved: 2})
	check(first.Extend(t.Context(), time.Hour))
	expect("Extend", 2, ts{Ready: 1, Reserved: 2})
	check(first.Ack(t.Context()))
	expect("Ack", 2, ts{Ready: 1, Reserved: 1})
	check(second.Retry(t.Context(), time.Hour))
	expect("Retry", 3, ts{Ready: 1})
	check(f.reserve("t").Release(t.Context()))
	expect("Release", 3, ts{Ready: 1})
	check(f.reserve("t").Bury(t.Context(), "bad"))
	expect("Bury", 3, ts{Dead: 1})
	check(f.Requeue(t.Context(), "0002"))
	expect("Requeue", 3, ts{Ready: 1})
	f.reserve("t")
	check(f.Reschedule(t.Context(), "0002", time.Hour))
	expect("Reschedule of a reserved job", 4, ts{})
	check(f.Reschedule(t.Context(), "0002", 0))
	f.reserve("t")
	f.push("0002", "t")
	expect("a push of a reserved job", 3, ts{Ready: 1})
	f.reserve("t")
	_, err = f.Remove(t.Context(), "0002")
	check(err)
	expect("Remove of a reserved job", 3, ts{})
	f.push("a", "t")
	d := f.reserve("t")
	check(d.Extend(t.Context(), time.Millisecond))
	f.serve()
	until(t, "the lease has ended and the job was moved", func() bool { _, got := f.stats("t"); return got == ts{Topic: "t", Ready: 1} })
	_, err = f.Pop(t.Context(), "t")
	check(err)
	expect("Pop", 3, ts{})
}

// Topics become known by a push and by a move, and by nothing else.
func TestStatsKnowsTopics(t *testing.T) {
	f := start(t)
	f.push("a", "pushed")
	_, err := f.Push(t.Context(), client.Message{ID: "b", Topic: "waits", Body: "b"}, time.Hour)
	check(t, err)
	f.Pop(t.Context(), "asked for")
	// As an old client pushes.
	f.do("HSET", "delayer:job_bucket:c", "topic", "moved", "body", "b")
	f.do("ZADD", "delayer:job_pool", 1, "c")
	names := func() (names []string) {
		s, _ := f.stats("")
		for _, topic := range s.Topics {
			names = append(names, topic.Topic)
		}
		return names
	}
	if got := names(); !slices.Equal(got, []string{"pushed", "waits"}) {
		t.Errorf("known are %q", got)
	}
	f.serve()
	until(t, "it is moved", func() bool { _, got := f.stats("moved"); return got.Ready == 1 })
	if got := names(); !slices.Equal(got, []string{"moved", "pushed", "waits"}) {
		t.Errorf("known are %q", got)
	}
}

// Each of many topics is told once, in order, whatever becomes known meanwhile.
func TestStatsOfManyTopics(t *testing.T) {
	f := start(t)
	for _, topics := range []int{499, 500, 501, 1700} {
		f.do("FLUSHALL")
		f.do("EVAL", `for i = 0, ARGV[1] - 1 do
			local topic = string.format('t%05d', i)
			redis.call('ZADD', 'delayer:topics', 0, topic)
			redis.call('LPUSH', 'delayer:ready_queue:' .. topic, 'a')
		end`, 0, topics)
		_, err := f.Push(t.Context(), client.Message{ID: "w", Topic: "t00000", Body: "b"}, time.Hour)
		check(t, err)
		f.push("r", "t00000")
		f.reserve("t00000")
		f.do("LPUSH", "delayer:ready_queue:t00000", "a")
		for _, changes := range []bool{false, true} {
			stop, stopped := make(chan struct{}), make(chan struct{})
			close(stopped)
			if changes { // topics come in front of the others, which move
				stopped = make(chan struct{})
				conn, err := redis.Dial("tcp", f.redis.Addr)
				check(t, err)
				defer conn.Close()
				go func() {
					defer close(stopped)
					for n := 0; ; n++ {
						select {
						case <-stop:
							return
						default:
							conn.Do("ZADD", "delayer:topics", 0, fmt.Sprint("a", n))
						}
					}
				}()
			}
			for range 20 {
				s, first := f.stats("t00000")
				if s.Waiting != 1 || first.Reserved != 1 {
					t.Fatalf("%d wait, %+v, want 1 and 1 that is reserved", s.Waiting, first)
				}
				told := map[string]int{}
				for _, topic := range s.Topics {
					told[topic.Topic]++
					if topic.Topic[0] == 't' && topic.Ready != 1 {
						t.Fatalf("%+v, want 1 that is ready", topic)
					}
				}
				for n := range topics {
					if name := fmt.Sprintf("t%05d", n); told[name] != 1 {
						t.Fatalf("%s is told %d times", name, told[name])
					}
				}
				if !slices.IsSortedFunc(s.Topics, func(a, b client.TopicStats) int { return strings.Compare(a.Topic, b.Topic) }) {
					t.Error("not in order")
				}
			}
			close(stop)
			<-stopped
		}
	}
}

// What is broken, or drifts, harms no other number.
func TestStatsOfBrokenKeys(t *testing.T) {
	f := start(t)
	f.push("a", "good")
	f.push("b", "broken")
	f.do("DEL", "delayer:ready_queue:broken")
	f.do("SET", "delayer:ready_queue:broken", "x")
	f.do("SET", "delayer:dead_letters:broken", "x")
	f.do("HSET", "delayer:reserved", "good", -3)
	s, _ := f.stats("")
	want := []client.TopicStats{{Topic: "broken", Ready: -1, Dead: -1}, {Topic: "good", Ready: 1}}
	if !slices.Equal(s.Topics, want) || s.Waiting != 0 {
		t.Errorf("%+v, want %+v", s, want)
	}
	f.do("HSET", "delayer:reserved", "good", 7) // more than there are in the pool
	if s, got := f.stats("good"); s.Waiting != 0 || got.Reserved != 7 {
		t.Errorf("%+v, %+v", s, got)
	}
	f.do("SET", "delayer:topics", "x")
	_, err := f.Stats(t.Context())
	expectText(t, "Stats", err, "delayer: stats: ", "WRONGTYPE")
}

// Counters count what was lost with an answer; a reserve loses nothing.
func TestCountersOfReserves(t *testing.T) {
	f := start(t)
	f.do("LPUSH", "delayer:ready_queue:t", "gone", "gone too")
	f.push("a", "t")
	var stale []string
	c := f.open(client.WithStale(func(ids []string) { stale = append(stale, ids...) }))
	d, err := c.Reserve(t.Context(), 0, time.Minute, "t")
	reserve(d, err).expect(t, "a")
	if got := c.Counters(); got != (client.Counters{Stale: 2}) || !slices.Equal(stale, []string{"gone", "gone too"}) {
		t.Errorf("counted %+v, told of %q", got, stale)
	}
}
