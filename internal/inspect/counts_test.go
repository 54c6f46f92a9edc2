package inspect

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
)

func (f *fixture) counts() Counts {
	f.TB.Helper()
	c, err := f.Counts(f.ctx)
	f.check(err)
	return c
}

func (c Counts) of(topic string) TopicCounts {
	i := slices.IndexFunc(c.Topics, func(t TopicCounts) bool { return t.Topic == topic })
	if i < 0 {
		return TopicCounts{}
	}
	return c.Topics[i]
}

func TestCounts(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		if c := f.counts(); c.Pool != 0 || c.Waiting != 0 || c.Overdue != 0 || len(c.Topics) != 0 || c.Time.IsZero() {
			t.Errorf("of an empty Redis: %+v", c)
		}
		for i := range 450 { // more than two pages of topics
			f.push(fmt.Sprintf("%03d", i), fmt.Sprint("w", i), time.Hour)
		}
		for i := range 3 {
			f.push("007", fmt.Sprint("r", i), 0)
		}
		f.reserve("007", time.Minute)
		f.bury("008", "d", "reason", "cause")
		c := f.counts()
		if c.Pool != 451 || c.Waiting != 450 || c.Overdue != 0 || len(c.Topics) != 450 {
			t.Errorf("pool %d, waiting %d, overdue %v, %d topics, want 451, 450, 0, 450", c.Pool, c.Waiting, c.Overdue, len(c.Topics))
		}
		if got := c.of("007"); got.Ready != 2 || got.Reserved != 1 || got.Dead != 0 {
			t.Errorf("of 007: %+v, want 2 ready, 1 reserved", got)
		}
		if got := c.of("008"); got != (TopicCounts{Topic: "008", Dead: 1}) {
			t.Errorf("of 008: %+v, want 1 dead", got)
		}
	})
}

// A topic's numbers in several partitions are added up. A number that is unknown in one partition is unknown
// in total.
func TestCountsOfPartitions(t *testing.T) {
	f, server := onRedis(t)
	conns := server.Pool()
	f.Inspector = &Inspector{fleet: &fleet.Fleet{}, patience: time.Minute}
	for i, topics := range []string{"a b", "b c", "c d"} {
		prefix := fmt.Sprint("p", i, ":")
		f.fleet.Stores = append(f.fleet.Stores, store.New(conns, prefix))
		for _, topic := range strings.Fields(topics) {
			f.Do("ZADD", prefix+"topics", 0, topic)
			f.Do("LPUSH", prefix+"ready_queue:"+topic, "ghost")
			f.Do("HSET", prefix+"reserved", topic, 2)
			f.Do("ZADD", prefix+"dead_letters:"+topic, 0, "d")
		}
		f.Do("ZADD", prefix+"job_pool", 9e9, "1", 9e9, "2", 9e9, "3", 9e9, "4", 9e9, "5")
	}
	f.Do("SET", "p2:dead_letters:c", "text")
	c := f.counts()
	want := []TopicCounts{
		{Topic: "a", Ready: 1, Reserved: 2, Dead: 1}, {Topic: "b", Ready: 2, Reserved: 4, Dead: 2},
		{Topic: "c", Ready: 2, Reserved: 4, Dead: Unknown}, {Topic: "d", Ready: 1, Reserved: 2, Dead: 1},
	}
	if c.Pool != 15 || c.Waiting != 3 || !slices.Equal(c.Topics, want) {
		t.Errorf("pool %d, waiting %d, topics %+v; want 15, 3, %+v", c.Pool, c.Waiting, c.Topics, want)
	}
}

// Without permission for a command, only the numbers that need it are missing.
func TestCountsWithoutPermission(t *testing.T) {
	t.Parallel()
	f, _ := onRedis(t)
	f.push("t", "w", time.Hour)
	f.push("t", "r", 0)
	f.push("t", "s", 0)
	f.reserve("t", time.Minute)
	f.bury("u", "d", "reason", "cause")
	whole := TopicCounts{Topic: "t", Ready: 1, Reserved: 1}
	lacks := func(change func(*TopicCounts)) TopicCounts {
		c := whole
		change(&c)
		return c
	}
	noOverdue := lacks(func(c *TopicCounts) { c.Overdue, c.AtLeast = Unknown, Unknown })
	for _, c := range []struct {
		command string
		want    TopicCounts
	}{
		{"time", noOverdue},
		{"lindex", noOverdue},
		{"zscore", noOverdue},
		{"pttl", lacks(func(c *TopicCounts) { c.Overdue = Unknown })},
		{"hmget", lacks(func(c *TopicCounts) { c.Overdue, c.AtLeast, c.Reserved = Unknown, Unknown, Unknown })},
		{"llen", lacks(func(c *TopicCounts) { c.Overdue, c.AtLeast, c.Ready = Unknown, Unknown, Unknown })},
	} {
		t.Run(c.command, func(t *testing.T) {
			f.Do("ACL", "SETUSER", "default", "-"+c.command)
			counts := f.counts()
			f.Do("ACL", "SETUSER", "default", "+@all")
			got := counts.of("t")
			if got.Overdue > 0 {
				got.Overdue, got.AtLeast = 0, 0
			}
			if got != c.want || counts.Pool != 2 {
				t.Errorf("%+v, pool %d, want %+v, 2", got, counts.Pool, c.want)
			}
		})
	}
	for _, command := range []string{"zcard", "zrange", "evalsha"} {
		f.Do("ACL", "SETUSER", "default", "-"+command)
		_, err := f.Counts(f.ctx)
		f.Do("ACL", "SETUSER", "default", "+@all")
		if !store.Refused(err) {
			t.Errorf("without %s: %v", command, err)
		}
	}
}

// For a topic with a limit, the counts include the slots taken, the jobs throttled and, with a rate, when the throttling ends,
// even if no client waits.
func TestCountsOfLimits(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		for i := range 3 {
			f.push("slots", fmt.Sprint("a", i), 0)
			f.push("rate", fmt.Sprint("b", i), 0)
		}
		slots, rate := client.Limit{Concurrency: 2}, client.Limit{Rate: 1.0 / 3600, Burst: 1}
		f.check(f.client.SetLimit(f.ctx, "slots", slots))
		f.check(f.client.SetLimit(f.ctx, "rate", rate))
		f.reserve("slots", time.Minute)
		want := TopicCounts{Topic: "slots", Ready: 2, Reserved: 1, Limit: store.Limit(slots), Slots: 1}
		told := func(topic string) TopicCounts {
			c := f.counts().of(topic)
			c.Overdue, c.AtLeast = 0, 0
			return c
		}
		if got := told("slots"); got != want {
			t.Errorf("one slot is free: %+v, want %+v", got, want)
		}
		f.reserve("slots", time.Minute)
		want.Ready, want.Reserved, want.Throttled, want.Slots = 1, 2, 1, 2
		if got := told("slots"); got != want {
			t.Errorf("no slot is free: %+v, want %+v", got, want)
		}
		if got := told("rate"); got.Throttled != 0 || !got.ThrottledUntil.IsZero() {
			t.Errorf("the first may begin: %+v", got)
		}
		f.reserve("rate", time.Minute)
		now, got := f.counts().Time, told("rate")
		if in := got.ThrottledUntil.Sub(now); got.Throttled != 2 || got.Slots != 0 || (in-time.Hour).Abs() > time.Minute {
			t.Errorf("the next may begin in %v: %+v", in, got)
		}
	})
}

// The next job of a limited topic may begin as soon as any partition with throttled jobs allows it.
func TestLimitsOfPartitionsAddUp(t *testing.T) {
	soon, late := time.UnixMilli(1000), time.UnixMilli(2000)
	limit := store.Limit{Concurrency: 9, Rate: 1}
	sum := fleet.NewSum([]string{"t"})
	for _, part := range []TopicCounts{{Limit: limit}, {Limit: limit, Throttled: 1, Slots: 2, ThrottledUntil: late}, {Limit: limit, Throttled: 3, Slots: 4, ThrottledUntil: soon}, {Limit: limit, Slots: 1}} {
		part.Topic = "t"
		sum.Add(store.Stats{Topics: []TopicCounts{part}})
	}
	if got := sum.Topics[0]; got != (TopicCounts{Topic: "t", Limit: limit, Throttled: 4, Slots: 7, ThrottledUntil: soon}) {
		t.Errorf("the sum is %+v", got)
	}
}

// onPartitions returns an Inspector for the given number of partitions of one Redis, with these
// keys.
func onPartitions(t *testing.T, n int) *fixture {
	f, server := onRedis(t)
	f.Inspector = open(server.Pool(), n)
	return f
}

// A partition is read only for the topics that it knows, and one script covers many topics without jobs.
func TestCountsAskPartitionsForTheirTopics(t *testing.T) {
	const topics, partitions = 1000, 16
	f := onPartitions(t, partitions)
	for i := range topics {
		f.Do("ZADD", fmt.Sprintf("delayer:{%d}:topics", i%partitions), i, fmt.Sprint("t", i))
	}
	f.Do("LPUSH", "delayer:{3}:ready_queue:t3", "ghost")
	f.counts() // Redis has the scripts now
	f.Do("CONFIG", "RESETSTAT")
	c := f.counts()
	if c.Known != topics || len(c.Topics) != topics || c.AtLeast() || c.of("t3").Ready != 1 || c.Partitions[3].Ready != 1 {
		t.Errorf("%d of %d topics; t3: %+v", len(c.Topics), c.Known, c.of("t3"))
	}
	calls := f.AllCalls()
	delete(calls, "config|resetstat")
	total := 0
	for _, n := range calls {
		total += n
	}
	if total > topics/2 {
		t.Errorf("%d commands: %v", total, calls)
	}
}

// A recent Snapshot is shared with later callers.
func TestSnapshotIsShared(t *testing.T) {
	f := onPartitions(t, 4)
	first := f.Snapshot(time.Hour)
	_, err := first.Wait(f.ctx)
	f.check(err)
	if f.Snapshot(time.Hour) != first || f.Snapshot(0) == first {
		t.Error("a recent one is read anew, or an old one is given to a caller who wants a new one")
	}
}

// Topics with jobs are found by halving, wherever they are, and no script returns more than its limit.
func TestCountsFindWhatIsThere(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		var topics []string
		var want []TopicCounts
		for i := range 700 {
			topic := fmt.Sprintf("t%03d", i)
			topics, want = append(topics, topic), append(want, TopicCounts{Topic: topic})
			w := &want[i]
			if i%7 == 0 || i < 150 {
				f.Do("LPUSH", "delayer:ready_queue:"+topic, "ghost")
				w.Ready = 1
			}
			if i%11 == 0 || i/64 == 5 {
				f.Do("ZADD", "delayer:dead_letters:"+topic, 1, "d")
				w.Dead = 1
			}
			if i%100 == 99 {
				f.Do("HSET", "delayer:reserved", topic, 3)
				w.Reserved = 3
			}
			if i == 680 {
				f.Do("HSET", "delayer:paused", topic, "1 0 0 0 note")
				f.Do("LPUSH", "delayer:paused_queue:"+topic, "ghost", "ghost")
				w.Ready += 2
			}
		}
		c, err := f.CountsOf(f.ctx, topics...)
		f.check(err)
		if !slices.Equal(c.Topics, want) {
			for i, got := range c.Topics {
				if got != want[i] {
					t.Errorf("%+v, want %+v", got, want[i])
				}
			}
		}
	})
}

// With several partitions all topics are counted unless a partition knows too many. In that case the result reports
// it.
func TestCountsOfTooManyTopics(t *testing.T) {
	f := onPartitions(t, 3)
	const each = MostTopics - 1
	for i := range 3 {
		f.Do("EVAL", `for i = 1, ARGV[1] do
			redis.call('ZADD', KEYS[1] .. 'topics', 1e9 + i, ARGV[2] .. i)
			if i % 3 == 0 then redis.call('LPUSH', KEYS[1] .. 'ready_queue:' .. ARGV[2] .. i, 'ghost') end
		end`, 1, fmt.Sprintf("delayer:{%d}:", i), each, fmt.Sprintf("%c", 'a'+i))
	}
	f.Do("ZADD", "delayer:{0}:topics", 5, "shared")
	f.Do("ZADD", "delayer:{1}:topics", 5, "shared")
	ready := func(c Counts) (sum int) {
		for _, topic := range c.Topics {
			sum += topic.Ready
		}
		return sum
	}
	if c := f.counts(); c.Known != 3*each+1 || len(c.Topics) != c.Known || ready(c) != each || c.AtLeast() {
		t.Errorf("%d of %d topics, %d ready, at least: %v", len(c.Topics), c.Known, ready(c), c.AtLeast())
	}
	// Now partition 0 knows too many. The topic used last is beyond the topics that are read, but is counted nevertheless.
	f.Do("ZADD", "delayer:{0}:topics", 6, "more", 4, "last")
	f.Do("ZADD", "delayer:{2}:topics", 2e9, "last")
	for i := range 3 {
		f.Do("LPUSH", fmt.Sprintf("delayer:{%d}:ready_queue:last", i), "ghost")
	}
	c := f.counts()
	if !c.AtLeast() || len(c.Topics) != MostTopics || c.Known < 3*each+2 || c.of("last").Ready != 2 || c.Used[len(c.Used)-1] != "last" {
		t.Errorf("%d of %d topics, at least: %v; the last one: %+v", len(c.Topics), c.Known, c.AtLeast(), c.of("last"))
	}
	if shown, err := f.Topics(f.ctx, TopicQuery{Contains: "la"}); err != nil || len(shown.Topics) != 1 || shown.Topics[0].Ready != 2 {
		t.Errorf("%+v, %v", shown.Topics, err)
	}
}
