package store

import (
	"testing"
	"time"
)

// A user who may not write the numbers of reserved jobs still gets jobs, without a limit. Other users are limited, and topics without a
// limit need no lookup.
func TestLimitWithoutNumbers(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	b.seed(t, append(readyOf(4), ready("u", "u"))...)
	b.limitTo(t, Limit{Concurrency: 1})
	b.SetUser("~* &* +@all -hincrby")
	user := b.user()
	for _, topic := range []string{"t", "u"} {
		if got := user.reserve(t, 1, Reservation{}, topic); len(got.Jobs) != 1 {
			t.Errorf("of %s: %+v", topic, got)
		}
	}
	if got := user.reserve(t, 2, Reservation{}, "t"); len(got.Jobs) != 2 {
		t.Errorf("beyond the limit: %+v", got)
	}
	b.seed(t, readyOf(2)...)
	b.do(t, "CONFIG", "RESETSTAT")
	b.expectReserved(t, 1, 1, 0)
	if n := b.With(t).Calls("hget", "hexists"); n > 0 {
		t.Errorf("there is no limit, and %d times it was looked for", n)
	}
}

// A limit that can't be read is reported and changes nothing. TestBrokenLimitAmongTopics covers other topics.
func TestBrokenLimit(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, ready("a", "t"))
		b.limitTo(t, Limit{Concurrency: 1})
		b.do(t, "HSET", "delayer:limits", "t", "broken")
		if _, err := b.Reserve(Wanted{Topics: []string{"t"}, N: 1}, Reservation{}).Do(t.Context()); err == nil || Temporary(err) {
			t.Errorf("with a limit that is none: %v", err)
		}
		if s := b.With(t).State(); s.Counts["t"] != "" || len(s.Ready["t"]) != 1 {
			t.Errorf("there is %+v", s)
		}
	})
}

// If an older server overwrote the number that marks a limit, the next sweep marks it again.
func TestSweepKeepsLimits(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, readyOf(3)...)
		b.limitTo(t, Limit{Concurrency: 1})
		b.expectReserved(t, 1, 1, 0)
		b.do(t, "HSET", "delayer:reserved", "t", 1)
		_, err := b.Sweep(t.Context(), Position{})
		check(t, err)
		b.expectReserved(t, 1, 0, Woken)
		b.do(t, "ZADD", "delayer:topics", 1000, "t")
		b.do(t, "DEL", "delayer:job_pool", "delayer:ready_queue:t", "delayer:reserved")
		check(t, errOf(b.Sweep(t.Context(), Position{})))
		if known, err := b.IsKnown(t.Context(), "t"); !known || err != nil {
			t.Errorf("a topic with a limit is forgotten: %v", err)
		}
	})
}

// A full Redis enforces limits: each reserved job has a slot, and no job goes beyond the limit.
func TestLimitAtMaxmemory(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	b.seed(t, readyOf(5)...)
	b.limitTo(t, Limit{Concurrency: 2, Rate: 1. / 3600, Burst: 3})
	b.do(t, "CONFIG", "SET", "maxmemory", "1")
	held := b.expectReserved(t, 5, 2, Woken)
	b.expectReserved(t, 1, 0, Woken)
	made(t, b.Ack(held))
	if got := b.reserve(t, 5, Reservation{}, "t"); len(got.Jobs) != 1 || got.Throttled == nil || got.Throttled[0] < 59*time.Minute {
		t.Errorf("%d jobs are reserved, held %v", len(got.Jobs), got.Throttled)
	}
	b.do(t, "CONFIG", "SET", "maxmemory", "0")
	if s := b.With(t).State(); len(s.Slots["t"]) != 1 || s.Counts["t"] != "1" {
		t.Errorf("there is %+v", s)
	}
}

// A replica that takes over without the last writes blocks nothing, whichever writes it lacks: slots without leases are freed, and the
// next sweep restores the mark of the limit.
func TestLimitAfterRedisForgot(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, readyOf(5)...)
		b.limitTo(t, Limit{Concurrency: 2})
		held := b.expectReserved(t, 2, 2, 0)
		// The replica that took over has the slots but lacks one of the leases; then it has the leases but lacks the slots.
		b.do(t, "ZREM", "delayer:job_pool", held[0].ID)
		b.do(t, "RPUSH", "delayer:ready_queue:t", held[0].ID)
		again := b.expectReserved(t, 2, 1, Woken)
		if again[0].ID != held[0].ID {
			t.Errorf("reserved %s", again[0].ID)
		}
		b.do(t, "DEL", "delayer:slots:t")
		b.do(t, "DEL", "delayer:reserved")
		check(t, errOf(b.Sweep(t.Context(), Position{})))
		made(t, b.Ack(again))
		b.expectReserved(t, 5, 2, Woken)
	})
}

// A sweep keeps a limit that can't be read.
func TestSweepOfAnUnreadableLimit(t *testing.T) {
	b, _ := onRedis(t)
	b.seed(t, readyOf(3)...)
	b.limitTo(t, Limit{Concurrency: 1})
	b.expectReserved(t, 1, 1, 0)
	b.do(t, "RENAME", "delayer:limits", "delayer:kept")
	b.do(t, "SET", "delayer:limits", "text")
	if _, err := b.Reserve(Wanted{Topics: []string{"t"}, N: 1}, Reservation{}).Do(t.Context()); err == nil {
		t.Fatal("it is reserved")
	}
	check(t, errOf(b.Sweep(t.Context(), Position{})))
	if got, err := b.Reserve(Wanted{Topics: []string{"t"}, N: 1}, Reservation{}).Do(t.Context()); err == nil {
		t.Errorf("what was refused is given now: %+v", got.Jobs)
	}
}

// A limit that can't be read does not delay other topics of the same call.
func TestBrokenLimitAmongTopics(t *testing.T) {
	for name, breakIt := range map[string]func(b *backend){
		"what limits say": func(b *backend) { b.do(t, "HSET", "delayer:limits", "t", "broken") },
		"slots":           func(b *backend) { b.do(t, "DEL", "delayer:slots:t"); b.do(t, "SET", "delayer:slots:t", "text") },
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := onRedis(t)
			b.seed(t, ready("a", "t"), ready("b", "u"), ready("c", "u"))
			b.limitTo(t, Limit{Concurrency: 1})
			breakIt(b)
			for _, topics := range [][]string{{"t", "u"}, {"u", "t"}} {
				got, err := b.Reserve(Wanted{Topics: topics, N: 1}, Reservation{Lease: time.Millisecond}).Do(t.Context())
				if err != nil || len(got.Jobs) != 1 {
					t.Errorf("of %q: %+v, %v", topics, got.Jobs, err)
				}
			}
		})
	}
}
