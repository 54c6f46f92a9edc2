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
	b.expectReservedAny(t)
	at := fmt.Sprintf("%.0f", (b.clock(t)+3600)*1e6) // the state left by a clock that was ahead
	b.do(t, "HSET", "delayer:limits", "t", "-1 100000 1 "+at+" 0 0 10 1 ")
	got := b.reserve(t, 1, Reservation{Lease: time.Hour}, "t")
	if len(got.Jobs) == 0 && got.Throttled[0] > time.Second {
		t.Errorf("of a topic with 10 a second the next job is held back for %v", got.Throttled)
	}
}

func (b *backend) expectReservedAny(t *testing.T) {
	t.Helper()
	if got := b.reserve(t, 1, Reservation{Lease: time.Hour}, "t"); len(got.Jobs) != 1 {
		t.Fatal(got)
	}
}

// A job is kept for as long as its follower needs, also if its lifetime was extended for its lease.
func TestFollowerIsKept(t *testing.T) {
	b, _ := onRedis(t)
	b.seed(t)
	ctx := t.Context()
	check(t, b.push(ctx, Job{ID: "a", Topic: "t", Body: "b"}, Due{}, 10*time.Minute, Replace))
	got := b.reserve(t, 1, Reservation{Lease: 10 * time.Minute}, "t")
	check(t, b.push(ctx, Job{ID: "a", Topic: "t", Body: "follower"}, Due{}, 15*time.Minute, Follow))
	made(t, b.Retry([]Returned{{LeaseRef: LeaseRef{"t", "a", got.Leases[0].Token}}}))
	ttl := time.Duration(b.do(t, "PTTL", "delayer:job_bucket:a").(int64)) * time.Millisecond
	if ttl < 14*time.Minute {
		t.Errorf("the follower was to be kept for 15m, and goes with its job in %v", ttl)
	}
}

// The next SetLimit completes one whose answer was lost, or that was cut off before the slots were registered.
func TestLimitSetAgain(t *testing.T) {
	b, _ := onRedis(t)
	b.seed(t, readyOf(3)...)
	b.expectReserved(t, 1, 1, 0)
	l := Limit{Concurrency: 1}
	part := wholeShare(l)
	args := append(arguments(5, b.keys.JobPool()), "t", part.Concurrency, "0", part.Burst, l.String())
	_, err := newCall(b.Store, limitScript, args, unread).Do(t.Context()) // the connection is then cut
	check(t, err)
	b.limitTo(t, l)
	b.expectReserved(t, 1, 0, Woken)
}

// A push to a group changes nothing if its user lacks a command that Once needs.
func TestRightsOfOnce(t *testing.T) {
	for _, command := range []string{"zrangebyscore", "zrem", "pttl", "pexpire", "zscore"} {
		for name, call := range map[string]func(b *backend) error{
			"group": func(b *backend) error {
				d := toGroup("t", "k", "1", Group{Longest: time.Hour})
				d.ID, d.Policy = d.ID+"own", Once(time.Minute)
				errs, err := b.Push([]Delayed{d}).Do(t.Context())
				if err == nil {
					err = errs[0]
				}
				return err
			},
			"push": func(b *backend) error {
				return b.push(t.Context(), Job{ID: "a", Topic: "t", Body: "b"}, Due{After: time.Hour}, time.Hour, Once(time.Minute))
			},
		} {
			t.Run(command+" "+name, func(t *testing.T) {
				b, _ := onRedis(t, alone)
				b.seed(t)
				b.do(t, "ZADD", "delayer:once", 1, "over")
				b.do(t, "ACL", "SETUSER", "u", "reset", "on", ">p", "~*", "&*", "+@all", "-"+command)
				err := call(b.user())
				if err != nil && (len(b.With(t).Strings("KEYS", "delayer:job_bucket:*")) > 0) {
					t.Errorf("without %s: %v, and it is stored", command, err)
				}
			})
		}
	}
}

// A pause that is refused changes nothing.
func TestPauseIntoABrokenQueue(t *testing.T) {
	b, _ := onRedis(t)
	b.seed(t, ready("a", "t"), text("paused_queue:t"))
	err := errOf(b.Pause("t", time.Hour, "").Do(t.Context()))
	job, _, popErr := b.pop(t.Context(), []string{"t"})
	if err == nil && popErr == nil {
		t.Errorf("it is paused, and %s is popped", job.ID)
	}
}

// If a reserve finds a job out of attempts, the job's follower replaces it.
func TestDeadLetterWithFollower(t *testing.T) {
	b, _ := onRedis(t)
	b.heldX(t)
	check(t, b.push(t.Context(), Job{ID: "x", Topic: "u", Body: "second"}, Due{}, time.Hour, Follow))
	b.leaseIsOver(t)
	b.reserve(t, 1, Reservation{Lease: time.Hour}, "t")
	next := b.reserve(t, 1, Reservation{Lease: time.Hour}, "u")
	if len(next.Jobs) != 1 || next.Jobs[0].Body != "second" {
		t.Errorf("the follower is %+v", next)
	}
}

// At maxmemory every operation that ends a reservation succeeds, with limits, followers and pauses.
func TestFeaturesAtMaxmemory(t *testing.T) {
	b, _ := onRedis(t, alone)
	ctx := t.Context()
	full := func() { b.do(t, "CONFIG", "SET", "maxmemory", 1) }
	free := func() { b.do(t, "CONFIG", "SET", "maxmemory", 0) }
	fresh := func(limit Limit) {
		free()
		b.seed(t)
		if limit != (Limit{}) {
			b.limitTo(t, limit)
		}
		for _, id := range []string{"a", "b", "c"} {
			check(t, b.push(ctx, Job{ID: id, Topic: "t", Body: "b"}, Due{}, time.Hour, Replace))
		}
	}
	one := func(what string, errs []error, err error) {
		t.Helper()
		if err != nil || errs[0] != nil {
			t.Errorf("%s: %v %v", what, err, errs)
		}
	}
	for _, limit := range []Limit{{}, {Concurrency: 2, Rate: 1e6, Burst: 10}} {
		for _, followed := range []bool{false, true} {
			for what, end := range map[string]func(h LeaseRef) ([]error, error){
				"ack":   func(h LeaseRef) ([]error, error) { return b.Ack([]LeaseRef{h}).Do(ctx) },
				"retry": func(h LeaseRef) ([]error, error) { return b.Retry([]Returned{{LeaseRef: h, Error: "e"}}).Do(ctx) },
				"later": func(h LeaseRef) ([]error, error) {
					return b.Retry([]Returned{{LeaseRef: h, Error: "e", Delay: time.Hour}}).Do(ctx)
				},
				"release": func(h LeaseRef) ([]error, error) { return b.Retry([]Returned{{LeaseRef: h, Refund: true}}).Do(ctx) },
				"extend": func(h LeaseRef) ([]error, error) {
					return b.Extend([]*Extension{{LeaseRef: h, Lease: 2 * time.Hour}}).Do(ctx)
				},
				"bury": func(h LeaseRef) ([]error, error) {
					return b.Bury([]Burial{{LeaseRef: h, Reason: "r", Error: "e"}}).Do(ctx)
				},
				"pop after release": func(h LeaseRef) ([]error, error) {
					if errs, err := b.Retry([]Returned{{LeaseRef: h, Refund: true}}).Do(ctx); err != nil {
						return errs, err
					}
					job, _, err := b.pop(ctx, []string{"t"})
					if job.ID != h.ID {
						t.Error(job)
					}
					return []error{nil}, err
				},
			} {
				fresh(limit)
				name := fmt.Sprint(what, " ", limit, " followed ", followed)
				h := b.reserve(t, 1, Reservation{Lease: time.Hour}, "t")
				if followed {
					check(t, b.push(ctx, Job{ID: h.Jobs[0].ID, Topic: "t", Body: "follower"}, Due{}, time.Hour, Follow))
				}
				full()
				if got := b.reserve(t, 1, Reservation{Lease: time.Hour}, "t"); len(got.Jobs) != 1 {
					t.Errorf("%s: reserve %+v", name, got)
				}
				errs, err := end(LeaseRef{"t", h.Jobs[0].ID, h.Leases[0].Token})
				one(name, errs, err)
				free()
				if followed && (what == "ack" || what == "bury" || what == "pop after release") {
					if body := b.do(t, "HGET", "delayer:job_bucket:"+h.Jobs[0].ID, "body"); fmt.Sprintf("%s", body) != "follower" {
						t.Errorf("%s: the job is %s", name, body)
					}
				}
			}
		}
	}
	fresh(Limit{})
	check(t, errOf(b.Pause("t", time.Hour, "").Do(ctx)))
	full()
	made(t, b.KeepPaused("0", 1))
	if was, err := b.Store.resumeAll(ctx, "t"); !was || err != nil {
		t.Error("resume", was, err)
	}
	if job, _, err := b.pop(ctx, []string{"t"}); err != nil {
		t.Error(job, err)
	}
	free()
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
	_, err := b.Sweep(t.Context(), Position{})
	check(t, err)
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
