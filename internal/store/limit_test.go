package store

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// limitTo limits topic t.
func (b *backend) limitTo(t *testing.T, l Limit) {
	t.Helper()
	check(t, b.Store.limitTo(t.Context(), l))
}

// expectReserved reserves up to n jobs of t. It fails unless it gets this many jobs and this retry time.
func (b *backend) expectReserved(t *testing.T, n, want int, held time.Duration) []LeaseRef {
	t.Helper()
	got := b.reserve(t, n, Reservation{Lease: time.Hour}, "t")
	var is time.Duration
	if got.Throttled != nil {
		is = got.Throttled[0]
	}
	if len(got.Jobs) != want || is != held {
		t.Fatalf("%d of %d jobs are reserved, held %v; want %d, held %v", len(got.Jobs), n, is, want, held)
	}
	var list []LeaseRef
	for i, job := range got.Jobs {
		list = append(list, LeaseRef{job.Topic, job.ID, got.Leases[i].Token})
	}
	return list
}

// ask reserves a job of t for a client that waits if there is none.
func (b *backend) ask(t *testing.T, waiter string) Popped {
	t.Helper()
	return made(t, b.Reserve(Wanted{Topics: []string{"t"}, N: 1, Registration: Registration{Waiter: waiter}}, Reservation{}))
}

func readyOf(n int) (seeds [][]command) {
	for i := range n {
		seeds = append(seeds, ready(fmt.Sprintf("%03d", i), "t"))
	}
	return seeds
}

// Entries without a job do not count towards a limit.
func TestLimitBehindStaleEntries(t *testing.T) {
	for name, limit := range map[string]Limit{"concurrency": {Concurrency: 1}, "rate": {Rate: 1, Burst: 1}} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, b *backend) {
				b.seed(t, readyOf(3)...)
				for i := range 4 {
					b.do(t, "RPUSH", "delayer:ready_queue:t", fmt.Sprint("stale", i))
				}
				b.limitTo(t, limit)
				if got := b.reserve(t, 3, Reservation{Lease: time.Hour}, "t"); len(got.Jobs) != 1 || got.Throttled == nil {
					t.Errorf("%d jobs are reserved, held %v", len(got.Jobs), got.Throttled)
				}
			})
		})
	}
}

// A client with a long wait is woken when the limit changes.
func TestThrottledForLong(t *testing.T) {
	for name, l := range map[string]Limit{"none": {}, "more a second": {Rate: 1000}, "any number at a time": {Concurrency: 2}} {
		t.Run(name, func(t *testing.T) {
			b, _ := onRedis(t)
			b.seed(t, readyOf(2)...)
			b.limitTo(t, Limit{Rate: 1. / 3600})
			channel := b.keys.Wake("me")
			sub := b.subscribed(t, time.Minute, channel)
			expectEvents(t, sub, heard(channel))
			got := made(t, b.Reserve(Wanted{Topics: []string{"t"}, N: 2, Registration: Registration{Waiter: "me"}}, Reservation{}))
			if len(got.Jobs) != 1 || !got.Registered {
				t.Fatalf("%+v", got)
			}
			const in = time.Hour - 250*time.Millisecond // a job may begin 250 ms early
			if off := got.Throttled[0] - in; off.Abs() > time.Millisecond {
				t.Errorf("the next begins in %v, want %v", got.Throttled[0], in)
			}
			b.limitTo(t, l)
			if n := b.do(t, "EXISTS", b.Keys().ThrottledWaiters("t"), "delayer:waiters:t"); n != int64(0) {
				t.Fatal("nobody was woken")
			}
			expectEvents(t, sub, told(channel, "1 t"))
		})
	}
}

// A client that is slightly too early for the rate is not registered: it polls again, and others can use a free slot.
func TestTooEarlyStandsNowhere(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, readyOf(3)...)
		b.limitTo(t, Limit{Concurrency: 2, Rate: 1})
		b.expectReserved(t, 1, 1, 0)
		got := b.ask(t, "me")
		if len(got.Jobs) != 0 || got.Throttled[0] <= 0 || got.Throttled[0] > time.Second {
			t.Errorf("%+v", got)
		}
		if waits := b.With(t).Strings("ZRANGE", b.Keys().ThrottledWaiters("t"), 0, -1); len(waits) > 0 {
			t.Errorf("held back are %q", waits)
		}
	})
}

// As many begin at once as the burst says, or without one a quarter of a second's worth, and one.
func TestBurst(t *testing.T) {
	b, _ := onRedis(t)
	for _, c := range []struct {
		limit Limit
		want  int
	}{
		{Limit{Rate: 1, Burst: 1}, 1}, {Limit{Rate: 20, Burst: 5}, 5}, {Limit{Rate: 3, Burst: 100}, 100}, {Limit{Rate: 1. / 7, Burst: 200}, 200},
		{Limit{Rate: 1}, 1}, {Limit{Rate: 20}, 1 + 20/4},
	} {
		b.seed(t, readyOf(250)...)
		b.limitTo(t, c.limit)
		if got := b.reserve(t, 250, Reservation{}, "t"); len(got.Jobs) != c.want {
			t.Errorf("%+v: %d begin at once, want %d", c.limit, len(got.Jobs), c.want)
		}
	}
}

// The rate makes up for lateness, but no further. A client that must wait gets a later time than the clients before it.
func TestLimitOfTheRate(t *testing.T) {
	b, _ := onRedis(t)
	b.seed(t, readyOf(250)...)
	b.limitTo(t, Limit{Rate: 100})
	if got := b.reserve(t, 250, Reservation{}, "t"); len(got.Jobs) != 1+100/4 || got.Throttled == nil {
		t.Fatalf("%d begin at once, held %v", len(got.Jobs), got.Throttled)
	}
	began := b.clock(t)
	var last time.Duration
	for i := range 10 {
		got := b.ask(t, fmt.Sprint(i))
		passed := time.Duration((b.clock(t) - began) * float64(time.Second))
		if len(got.Jobs) > int(passed/(10*time.Millisecond))+1 {
			t.Fatalf("%d begin within %v", len(got.Jobs), passed)
		}
		if len(got.Jobs) == 0 {
			if got.Throttled[0] <= 0 || got.Throttled[0] <= last-passed {
				t.Errorf("waiter %d is to come back in %v, and the one before in %v", i, got.Throttled, last)
			}
			last = got.Throttled[0] + passed
		}
	}
	b.limitTo(t, Limit{Rate: 1000})
	redistest.Until(t, "all have begun", func() bool {
		b.reserve(t, 250, Reservation{}, "t")
		return len(b.State().Ready["t"]) == 0
	})
}

// Removing a limit deletes all of its state and wakes its waiters.
func TestLimitIsTakenAway(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, readyOf(3)...)
		b.limitTo(t, Limit{Concurrency: 1, Rate: 1000, Burst: 3})
		b.expectReserved(t, 2, 1, Woken)
		if l, err := b.Store.Limit(t.Context(), "t"); l != (Limit{Concurrency: 1, Rate: 1000, Burst: 3}) || err != nil {
			t.Errorf("the limit is %v, %v", l, err)
		}
		b.limitTo(t, Limit{})
		if l, err := b.Store.Limit(t.Context(), "t"); l != (Limit{}) || err != nil {
			t.Errorf("the limit is %v, %v", l, err)
		}
		b.expectReserved(t, 3, 2, 0)
		if s := b.With(t).State(); len(s.Slots)+len(s.Limits) > 0 || s.Counts["t"] != "3" || b.do(t, "HGET", "delayer:reserved", "t") == nil {
			t.Errorf("there is %+v", s)
		}
	})
}

// A free slot wakes one throttled client. Without jobs, throttled clients become ordinary waiters.
func TestThrottled(t *testing.T) {
	b, _ := onRedis(t)
	b.seed(t, readyOf(3)...)
	b.limitTo(t, Limit{Concurrency: 1})
	channels := []string{b.keys.Wake("first"), b.keys.Wake("second")}
	sub := b.subscribed(t, time.Minute, channels...)
	expectEvents(t, sub, heard(channels[0]), heard(channels[1]))
	held := b.expectReserved(t, 1, 1, 0)
	for _, waiter := range []string{"first", "second"} {
		if got := b.ask(t, waiter); len(got.Jobs) > 0 || !got.Registered {
			t.Fatalf("%+v", got)
		}
	}
	check(t, b.push(t.Context(), Job{ID: "more", Topic: "t", Body: "b"}, Due{}, time.Hour, Replace)) // wakes nobody
	made(t, b.Ack(held))
	expectEvents(t, sub, told(channels[0], "3 t"))
	if waits := b.With(t).Strings("ZRANGE", b.Keys().ThrottledWaiters("t"), 0, -1); !slices.Equal(waits, []string{"second"}) {
		t.Errorf("held back are %q", waits)
	}
	got := b.ask(t, "first")
	b.do(t, "DEL", b.Keys().ReadyQueue("t"))
	made(t, b.Ack([]LeaseRef{{"t", got.Jobs[0].ID, got.Leases[0].Token}}))
	if waits := b.standing(t, "t"); !slices.Equal(waits, []string{"second"}) {
		t.Errorf("waiting are %q", waits)
	}
}

// Up to a thousand throttled clients become waiters in one call, for an hour at most, like all waiters. The others are left to the next
// call, and so are those behind a hundred dead ones.
func TestManyAreThrottled(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		hold := func(n int) {
			for i := range n {
				b.do(t, "ZADD", b.Keys().ThrottledWaiters("t"), i, fmt.Sprint("gone", i))
			}
		}
		left := func(key string) int64 { return b.do(t, "ZCARD", key).(int64) }
		b.seed(t, readyOf(2)...)
		b.limitTo(t, Limit{Concurrency: 1})
		held := b.expectReserved(t, 1, 1, 0)
		hold(101)
		made(t, b.Ack(held))
		if n := left(b.Keys().ThrottledWaiters("t")); n != 1 {
			t.Errorf("a slot is free: %d are held back, want 1", n)
		}
		b.do(t, "DEL", b.Keys().ReadyQueue("t"), b.Keys().ThrottledWaiters("t"))
		hold(1001)
		b.limitTo(t, Limit{})
		if n, waiting := left(b.Keys().ThrottledWaiters("t")), left("delayer:waiters:t"); n != 1 || waiting != 1000 {
			t.Errorf("the limit is ended: %d are held back, want 1, and %d wait, want 1000", n, waiting)
		}
		if ms := b.do(t, "PTTL", "delayer:waiters:t").(int64); ms <= 0 || ms > time.Hour.Milliseconds() {
			t.Errorf("they are forgotten in %d ms, want an hour at most", ms)
		}
	})
}

// The number of a topic's reserved jobs is marked with the kind of its limit, once, however often the limit is set. Removing the limit
// restores the plain number.
func TestLimitIsInTheNumber(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		const byRate, byNumber = 1 << 40, 1 << 41
		b.seed(t, readyOf(2)...)
		expect := func(want any) {
			t.Helper()
			got := b.do(t, "HGET", "delayer:reserved", "t")
			if text, ok := got.([]byte); ok {
				got = string(text)
			}
			if got != want {
				t.Errorf("the number is %v, want %v", got, want)
			}
		}
		held := b.expectReserved(t, 1, 1, 0)
		expect("1")
		for most := range 2 {
			b.limitTo(t, Limit{Concurrency: 1 + most})
			expect(fmt.Sprint(byNumber + 1))
		}
		b.limitTo(t, Limit{Rate: 1})
		expect(fmt.Sprint(byRate + 1))
		b.limitTo(t, Limit{})
		expect("1")
		made(t, b.Ack(held))
		expect(nil)
		b.limitTo(t, Limit{Concurrency: 1})
		expect(fmt.Sprint(byNumber))
		b.limitTo(t, Limit{})
		expect(nil)
	})
}

// A limited rate continues after Redis's clock was set back by an hour.
func TestRateAfterClockWasPutBack(t *testing.T) {
	b, _ := onRedis(t)
	b.seed(t, readyOf(3)...)
	b.limitTo(t, Limit{Rate: 10, Burst: 1})
	b.hold(t, "t", time.Hour)
	at := fmt.Sprintf("%.0f", (b.clock(t)+3600)*1e6) // the state left by a clock that was ahead
	b.do(t, "HSET", "delayer:limits", "t", "-1 100000 1 "+at+" 0 0 10 1 ")
	got := b.reserve(t, 1, Reservation{Lease: time.Hour}, "t")
	if len(got.Jobs) == 0 && got.Throttled[0] > time.Second {
		t.Errorf("of a topic with 10 a second the next job is held back for %v", got.Throttled)
	}
}

// A client that waits for a rate and leaves does not delay the others.
func TestAppointmentsOfThoseWhoLeft(t *testing.T) {
	b, _ := onRedis(t)
	b.seed(t, readyOf(250)...)
	b.limitTo(t, Limit{Rate: 100, Burst: 1})
	b.reserve(t, 250, Reservation{}, "t")
	var last time.Duration
	for i := range 1000 {
		got := b.ask(t, fmt.Sprint(i))
		if got.Throttled != nil {
			last = max(last, got.Throttled[0])
		}
	}
	if last > 6*time.Second {
		t.Error(last)
	}
}
