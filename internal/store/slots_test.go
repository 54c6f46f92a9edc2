package store

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// A lease frees its slot and no other, however it ends.
func TestSlotsOfEndedLeases(t *testing.T) {
	ends := map[string]func(t *testing.T, b *backend, h LeaseRef){
		"remove":     func(t *testing.T, b *backend, h LeaseRef) { check(t, made(t, b.Remove(removals(h.ID)))[0]) },
		"reschedule": func(t *testing.T, b *backend, h LeaseRef) { check(t, b.Reschedule(t.Context(), h.ID, time.Hour)) },
		"push": func(t *testing.T, b *backend, h LeaseRef) {
			check(t, b.push(t.Context(), Job{ID: h.ID, Topic: "t", Body: "anew"}, Due{After: time.Hour}, time.Hour, Replace))
		},
		"its end, and a move": func(t *testing.T, b *backend, h LeaseRef) {
			b.do(t, "ZADD", "delayer:job_pool", "1000000.123457", h.ID)
			b.do(t, "ZADD", "delayer:slots:t", "1000000.123457", h.ID)
			b.moveDue(t)
		},
	}
	for verb := range settlements {
		if verb != "extend" {
			ends[verb] = func(t *testing.T, b *backend, h LeaseRef) { check(t, b.settleAs(t, verb, h)) }
		}
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, b *backend) {
				b.seed(t, readyOf(5)...)
				b.limitTo(t, Limit{Concurrency: 2})
				held := b.expectReserved(t, 5, 2, Woken)
				b.expectReserved(t, 1, 0, Woken)
				end(t, b, held[0])
				again := b.expectReserved(t, 5, 1, Woken)
				slots := b.With(t).State().Slots["t"]
				want := []string{held[1].ID, again[0].ID}
				if slices.Sort(want); !slices.Equal(slots, want) {
					t.Errorf("the slots are %q, want %q", slots, want)
				}
			})
		})
	}
}

// A job has a slot for exactly as long as its lease lasts, also if the lease was extended or ended unnoticed.
func TestSlotsGoByTheirLeases(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, readyOf(5)...)
		b.limitTo(t, Limit{Concurrency: 1})
		held := b.expectReserved(t, 1, 1, 0)
		b.do(t, "ZADD", "delayer:slots:t", "1000000.123457", held[0].ID) // looks expired, but the lease was extended
		b.expectReserved(t, 1, 0, Woken)
		b.do(t, "ZADD", "delayer:slots:t", "1000000.123457", held[0].ID)
		b.do(t, "ZREM", "delayer:job_pool", held[0].ID) // removed by an old client
		held = b.expectReserved(t, 1, 1, 0)
		b.do(t, "ZADD", "delayer:job_pool", 2000000000, held[0].ID) // pushed again by an old client
		held = b.expectReserved(t, 1, 1, 0)
		b.do(t, "ZREM", "delayer:job_pool", held[0].ID)
		b.expectReserved(t, 1, 1, 0)
	})
}

// A shortened lease frees its slot when it ends.
func TestSlotOfAShorterLease(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, readyOf(2)...)
		b.limitTo(t, Limit{Concurrency: 1})
		held := b.expectReserved(t, 1, 1, 0)
		made(t, b.Extend([]*Extension{{LeaseRef: held[0], Lease: time.Millisecond}}))
		redistest.Until(t, "the lease is over", func() bool { return len(b.reserve(t, 1, Reservation{}, "t").Jobs) == 1 })
	})
}

// Slots become free even if the number of reserved jobs is too low, as old clients may leave it.
func TestSlotsByANumberTooLow(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, readyOf(2)...)
		b.limitTo(t, Limit{Concurrency: 1})
		held := b.expectReserved(t, 1, 1, 0)
		b.do(t, "HINCRBY", "delayer:reserved", "t", -5)
		check(t, made(t, b.Ack(held))[0])
		if slots := b.With(t).Strings("ZRANGE", "delayer:slots:t", 0, -1); len(slots) > 0 {
			t.Errorf("%q still have slots", slots)
		}
		b.expectReserved(t, 1, 1, 0)
	})
}

// If slots run out, a reserve checks the first 200 that have not expired, and frees those whose jobs have no leases.
func TestSlotsWithoutLeases(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, readyOf(310)...)
		const most = 300
		b.limitTo(t, Limit{Concurrency: most})
		for i := range most {
			b.do(t, "ZADD", "delayer:slots:t", 2000000000123457, fmt.Sprint("gone", i))
		}
		b.expectReserved(t, 250, 200, Woken)
	})
}

// A slot with an expired lease is not reported as taken, even before its job is moved.
func TestTakenSlotsAreTold(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, readyOf(3)...)
		limit := Limit{Concurrency: 2}
		b.limitTo(t, limit)
		expect := func(taken, held int) {
			t.Helper()
			stats, err := b.Stats(t.Context(), []string{"t"}, false)
			check(t, err)
			if got := stats.Topics[0]; got.Limit != limit || got.Slots != taken || got.Throttled != held {
				t.Errorf("%+v, want %d slots taken and %d jobs held back", got, taken, held)
			}
		}
		expect(0, 0)
		held := b.expectReserved(t, 3, 2, Woken)
		expect(2, 1)
		for _, key := range []string{"delayer:job_pool", "delayer:slots:t"} {
			b.do(t, "ZADD", key, "1000000.123457", held[0].ID)
		}
		expect(1, 0)
		if slots := b.With(t).State().Slots["t"]; len(slots) != 2 {
			t.Errorf("the slots are %q: to look has changed them", slots)
		}
	})
}

// Jobs reserved before the limit was set do not count, and end like all others; those that stay reserved when it changes count.
func TestLimitBesideWhatIsReserved(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, readyOf(7)...)
		before := b.expectReserved(t, 2, 2, 0)
		b.limitTo(t, Limit{Concurrency: 3})
		b.expectReserved(t, 5, 3, Woken)
		made(t, b.Ack(before))
		b.expectReserved(t, 2, 0, Woken)
		b.limitTo(t, Limit{Concurrency: 4})
		b.expectReserved(t, 2, 1, Woken)
	})
}

// A waiter that is not throttled is also woken when a lease ends and jobs are ready: it did not poll while the topic was at its limit.
func TestSlotWakesWhoWaits(t *testing.T) {
	b, _ := onRedis(t)
	b.seed(t)
	b.limitTo(t, Limit{Concurrency: 1})
	channel := b.keys.Wake("second")
	sub := b.subscribed(t, time.Minute, channel, b.keys.Wake("first"))
	expectEvents(t, sub, heard(channel), heard(b.keys.Wake("first")))
	b.ask(t, "first")
	b.ask(t, "second") // both wait for jobs
	check(t, b.pushAll(t, aJob("0", "t", 0), aJob("1", "t", 0)))
	expectEvents(t, sub, told(b.keys.Wake("first"), "2 t"))
	got := b.ask(t, "first")
	if len(got.Jobs) != 1 {
		t.Fatalf("%+v", got)
	}
	made(t, b.Ack([]LeaseRef{{"t", got.Jobs[0].ID, got.Leases[0].Token}})) // and leaves
	if waits := b.standing(t, "t"); len(waits) > 0 {                       // a script that wakes a waiter removes it
		t.Errorf("there are a job and a free slot, and nobody has woken %q", waits)
	}
}
