package store

import (
	"fmt"
	"testing"
	"time"
)

// A waiter that is not throttled is also woken when a lease ends and jobs are ready: it did not poll while the topic was at its limit.
func TestSlotWakesWhoWaits(t *testing.T) {
	b, _ := onRedis(t)
	b.seed(t)
	b.limitTo(t, Limit{Concurrency: 1})
	channel := b.keys.Wake("second")
	sub := b.subscribed(t, time.Minute, channel, b.keys.Wake("first"))
	expectEvents(t, sub, heard(channel), heard(b.keys.Wake("first")))
	ask := func(waiter string) Popped {
		return made(t, b.Reserve(Wanted{Topics: []string{"t"}, N: 1, Registration: Registration{Waiter: waiter}}, Reservation{}))
	}
	ask("first")
	ask("second") // both wait for jobs
	jobs := []Delayed{}
	for i := range 2 {
		jobs = append(jobs, Delayed{Job{ID: fmt.Sprint(i), Topic: "t", Body: "b"}, Due{}, Terms{Lifetime: time.Hour, Policy: Replace}, nil})
	}
	made(t, b.Push(jobs))
	expectEvents(t, sub, told(b.keys.Wake("first"), "2 t"))
	got := ask("first")
	if len(got.Jobs) != 1 {
		t.Fatalf("%+v", got)
	}
	made(t, b.Ack([]LeaseRef{{"t", got.Jobs[0].ID, got.Leases[0].Token}})) // and leaves
	if waits := b.standing(t, "t"); len(waits) > 0 {                       // a script that wakes a waiter removes it
		t.Errorf("there are a job and a free slot, and nobody has woken %q", waits)
	}
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

// A client that waits for a rate and leaves does not delay the others.
func TestAppointmentsOfThoseWhoLeft(t *testing.T) {
	b, _ := onRedis(t)
	b.seed(t, readyOf(250)...)
	b.limitTo(t, Limit{Rate: 100, Burst: 1})
	b.reserve(t, 250, Reservation{}, "t")
	var last time.Duration
	for i := range 1000 {
		got := made(t, b.Reserve(Wanted{Topics: []string{"t"}, N: 1, Registration: Registration{Waiter: fmt.Sprint(i)}}, Reservation{}))
		if got.Throttled != nil {
			last = max(last, got.Throttled[0])
		}
	}
	if last > 6*time.Second {
		t.Error(last)
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
