package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// made makes a call and returns its result.
func made[T any](t *testing.T, c *Call[T]) T {
	t.Helper()
	result, err := c.Do(t.Context())
	check(t, err)
	return result
}

// reserve reserves up to n jobs of the topics.
func (b *backend) reserve(t *testing.T, n int, r Reservation, topics ...string) Popped {
	t.Helper()
	return made(t, b.Reserve(Wanted{Topics: topics, N: n}, r))
}

// hold reserves the topic's next job.
func (b *backend) hold(t *testing.T, topic string, lease time.Duration) (LeaseRef, Lease) {
	t.Helper()
	got := b.reserve(t, 1, Reservation{Lease: lease}, topic)
	if len(got.Jobs) != 1 || len(got.Leases) != 1 {
		t.Fatalf("reserved %+v", got)
	}
	job, lease1 := got.Jobs[0], got.Leases[0]
	return LeaseRef{job.Topic, job.ID, lease1.Token}, lease1
}

// field seeds fields of a job besides topic and body.
func field(id string, pairs ...any) []command {
	return []command{append(command{"HSET", "delayer:job_bucket:" + id}, pairs...)}
}

func TestReserve(t *testing.T) {
	cases := []struct {
		name   string
		seed   [][]command
		topics []string // default: t
		limits []int
		n      int // default: 1
		r      Reservation
		ids    []string
		leases []Lease // without ends, tokens and lateness
		stale  []string
		want   redistest.State
	}{
		{name: "no queue"},
		{
			name: "the next one", seed: [][]command{ready("a", "t"), ready("b", "t"), waits("w", "t", 60*second)}, r: Reservation{Lease: time.Minute},
			ids: []string{"a"}, leases: []Lease{{Attempt: 1, Length: time.Minute}},
			want: redistest.State{
				Pool: []string{"w"}, Reserved: []string{"a"}, Counts: texts{"t": "1"}, Ready: queues{"t": {"b"}},
				Buckets: texts{"a": "t body of a", "b": "t body of b", "w": "t body of w"},
			},
		},
		{
			name: "of several topics, with limits", seed: [][]command{ready("a", "t"), ready("b", "t"), ready("c", "u"), ready("d", "u")}, n: 3,
			topics: []string{"t", "u"}, limits: []int{1, 9},
			ids: []string{"a", "c", "d"}, leases: slices.Repeat([]Lease{{Attempt: 1, Length: 30 * time.Second}}, 3),
			want: redistest.State{
				Reserved: []string{"a", "c", "d"}, Counts: texts{"t": "1", "u": "2"}, Ready: queues{"t": {"b"}},
				Buckets: texts{"a": "t body of a", "b": "t body of b", "c": "u body of c", "d": "u body of d"},
			},
		},
		{
			name: "as the job says", seed: [][]command{ready("a", "t"), field("a", "options", "3 5000 604800000", "lease", "2 5 0")},
			ids: []string{"a"}, leases: []Lease{{Attempt: 3, MaxAttempts: 3, Length: 5 * time.Second}},
			want: redistest.State{Reserved: []string{"a"}, Counts: texts{"t": "1"}, Buckets: texts{"a": "t body of a"}},
		},
		{
			name: "a short time, as the job says", seed: [][]command{ready("a", "t"), field("a", "options", "0 1 604800000")},
			ids: []string{"a"}, leases: []Lease{{Attempt: 1, Length: 100 * time.Millisecond}},
			want: redistest.State{Reserved: []string{"a"}, Counts: texts{"t": "1"}, Buckets: texts{"a": "t body of a"}},
		},
		{
			name: "a short time, as the consumer says", seed: [][]command{ready("a", "t")}, r: Reservation{Lease: 50 * time.Millisecond},
			ids: []string{"a"}, leases: []Lease{{Attempt: 1, Length: 50 * time.Millisecond}},
			want: redistest.State{Reserved: []string{"a"}, Counts: texts{"t": "1"}, Buckets: texts{"a": "t body of a"}},
		},
		{
			name: "the consumer says otherwise", seed: [][]command{ready("a", "t"), field("a", "options", "3 5000 604800000", "lease", "2 5 0")}, r: Reservation{time.Hour, 1},
			ids: []string{"a"}, leases: []Lease{{Attempt: 3, MaxAttempts: 3, Length: time.Hour}},
			want: redistest.State{Reserved: []string{"a"}, Counts: texts{"t": "1"}, Buckets: texts{"a": "t body of a"}},
		},
		{
			name: "attempts used up", seed: [][]command{ready("a", "t"), field("a", "options", "3 0 604800000", "lease", "3 5 0"), ready("b", "t"), field("b", "lease", "3 5 0")}, n: 2,
			ids: []string{"b"}, leases: []Lease{{Attempt: 4, Length: 30 * time.Second}},
			want: redistest.State{
				Reserved: []string{"b"}, Counts: texts{"t": "1"}, Buckets: texts{"b": "t body of b"},
				Dead: queues{"t": {"a"}}, Letters: texts{"a": "t body of a"},
			},
		},
		{
			name: "used up by what the consumer says", seed: [][]command{ready("a", "t"), field("a", "lease", "3 5 0")}, r: Reservation{0, 3},
			want: redistest.State{Dead: queues{"t": {"a"}}, Letters: texts{"a": "t body of a"}},
		},
		{
			name: "a job that is reserved or waits is passed over",
			seed: [][]command{waits("w", "t", 60*second), entry("w", "t"), content("l", "t"), {{"ZADD", "delayer:job_pool", "4102444800.123457", "l"}}, entry("l", "t"), ready("a", "t")},
			ids:  []string{"a"}, leases: []Lease{{Attempt: 1, Length: 30 * time.Second}},
			want: redistest.State{
				Pool: []string{"w"}, Reserved: []string{"a", "l"}, Counts: texts{"t": "1"},
				Buckets: texts{"a": "t body of a", "w": "t body of w", "l": "t body of l"},
			},
		},
		{
			name: "twice in the queue", seed: [][]command{ready("a", "t"), entry("a", "t"), ready("b", "t"), entry("a", "t")}, n: 9,
			ids: []string{"a", "b"}, leases: slices.Repeat([]Lease{{Attempt: 1, Length: 30 * time.Second}}, 2),
			want: redistest.State{Reserved: []string{"a", "b"}, Counts: texts{"t": "2"}, Buckets: texts{"a": "t body of a", "b": "t body of b"}},
		},
		{
			name: "stale entries, a stray", seed: [][]command{entry("g", "t"), content("s", "u"), entry("s", "t"), ready("a", "t")},
			ids: []string{"a"}, leases: []Lease{{Attempt: 1, Length: 30 * time.Second}}, stale: []string{"g"},
			want: redistest.State{
				Reserved: []string{"a"}, Counts: texts{"t": "1"}, Ready: queues{"u": {"s"}}, Buckets: texts{"a": "t body of a", "s": "u body of s"},
			},
		},
	}
	onEach(t, func(t *testing.T, b *backend) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				b.seed(t, c.seed...)
				if c.topics == nil {
					c.topics = []string{"t"}
				}
				c.n = max(c.n, 1)
				if c.limits == nil {
					c.limits = slices.Repeat([]int{c.n}, len(c.topics))
				}
				var got Popped
				took := b.timed(t, func() {
					got = made(t, b.Reserve(Wanted{Topics: c.topics, Limits: c.limits, N: c.n}, c.r))
				})
				var ids []string
				for i, job := range got.Jobs {
					ids = append(ids, job.ID)
					l := got.Leases[i]
					took.expectAfter(t, "end of "+job.ID, float64(l.End)/1e6, l.Length)
					took.expectAfter(t, "score of "+job.ID, first(b.due(t, job.ID)), l.Length)
					took.expectAfter(t, "token of "+job.ID, float64(l.Token)/1e6, 0)
					if l.End%1000 == 0 {
						t.Errorf("lease ends at the whole millisecond %d", l.End)
					}
					got.Leases[i] = Lease{Attempt: l.Attempt, MaxAttempts: l.MaxAttempts, Length: l.Length}
				}
				if !slices.Equal(ids, c.ids) || !slices.Equal(got.Leases, c.leases) || !slices.Equal(got.Stale, c.stale) {
					t.Errorf("reserved %q %+v, stale %q, want %q %+v, stale %q", ids, got.Leases, got.Stale, c.ids, c.leases, c.stale)
				}
				b.expect(t, c.want)
			})
		}
	})
}

func first[A, B any](a A, _ B) A { return a }

// expectKept checks for how long job a is kept. A slow machine is tolerated.
func (b *backend) expectKept(t *testing.T, want time.Duration, what string) {
	t.Helper()
	now := b.clock(t)
	if got := b.expiry(t, "a") - now; got > want.Seconds()+0.1 || got < want.Seconds()-10 {
		t.Errorf("%s: kept for %.3f s, want %v", what, got, want)
	}
}

// The lifetime of a job stops while the job is reserved or waits for a retry, and continues when it is ready.
func TestLifetimeStandsStill(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, ready("a", "t"))
		left := func(want time.Duration, what string) { t.Helper(); b.expectKept(t, want, what) }
		left(kept, "ready")
		held, _ := b.hold(t, "t", 1000*time.Second)
		left(kept+1000*time.Second, "reserved")
		made(t, b.Extend([]*Extension{{LeaseRef: held, Lease: 5000 * time.Second}}))
		left(kept+5000*time.Second, "extended")
		made(t, b.Extend([]*Extension{{LeaseRef: held, Lease: 2000 * time.Second}}))
		left(kept+2000*time.Second, "extended by less")
		expectErrors(t, made(t, b.Retry([]Returned{{LeaseRef: held, Delay: 700 * time.Second}})), nil)
		left(kept+700*time.Second, "waits for a retry")
		check(t, b.Reschedule(t.Context(), "a", 0))
		left(kept, "rescheduled to now")
		b.hold(t, "t", 1000*time.Second)
		check(t, b.Reschedule(t.Context(), "a", 300*time.Second))
		left(kept+300*time.Second, "rescheduled while it was reserved")
		b.Reschedule(t.Context(), "a", 0)
		held, _ = b.hold(t, "t", 1000*time.Second)
		expectErrors(t, made(t, b.Retry([]Returned{{LeaseRef: held, Refund: true}})), nil)
		left(kept, "released")
	}, alone)
}

func expectErrors(t *testing.T, got []error, want ...error) {
	t.Helper()
	if !slices.EqualFunc(got, want, func(a, b error) bool { return a == b || b != nil && errors.Is(a, b) }) {
		t.Errorf("errors %v, want %v", got, want)
	}
}

// The token grows with each reserve, even if Redis's clock is set back.
func TestTokenGrows(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, ready("a", "t"), field("a", "lease", "0 9000000000000000 0"))
		var last int64
		for i := range 3 {
			held, lease := b.hold(t, "t", time.Minute)
			if lease.Token <= last || i == 0 && lease.Token != 9000000000000001 {
				t.Errorf("token %d after %d", lease.Token, last)
			}
			last = lease.Token
			expectErrors(t, made(t, b.Retry([]Returned{{LeaseRef: held, Refund: i == 1}})), nil)
		}
	})
}

// Late is reported for first attempts only.
func TestLateness(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		late := func(lifetime time.Duration, since int64, again bool) time.Duration {
			b.seed(t)
			check(t, b.push(t.Context(), Job{ID: "a", Topic: "t", Body: "body"}, Due{}, lifetime, Replace))
			// Use up some of the lifetime.
			b.do(t, "PEXPIRE", "delayer:job_bucket:a", lifetime.Milliseconds()-since)
			held, lease := b.hold(t, "t", 0)
			if again {
				made(t, b.Retry([]Returned{{LeaseRef: held}}))
				_, lease = b.hold(t, "t", 0)
			}
			return lease.Late
		}
		const week = 7 * 24 * time.Hour
		for _, lifetime := range []time.Duration{week, time.Hour} {
			if got := late(lifetime, 5000, false); got < 5*time.Second || got > 15*time.Second {
				t.Errorf("late by %v, want 5 s, lifetime %v", got, lifetime)
			}
			if got := late(lifetime, 5000, true); got != -1 {
				t.Errorf("second attempt late by %v", got)
			}
			if got := late(lifetime, -5000000, false); got != -1 {
				t.Errorf("late by %v, of a job that is kept for longer than it says", got)
			}
		}
	})
}

// A job whose lease has expired is moved like any due job and no longer counts as reserved. Its former holder can't change it any more.
func TestEndOfALease(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, ready("a", "t"), ready("b", "t"), ready("c", "u"))
		a, _ := b.hold(t, "t", 30*time.Millisecond)
		b.hold(t, "t", time.Hour)
		_, lease := b.hold(t, "u", 30*time.Millisecond)
		b.await(t, lease.End+30_000)
		was := b.state(t)
		b.expectLost(t, a)
		b.expect(t, was)
		b.moveDue(t)
		b.expect(t, redistest.State{
			Reserved: []string{"b"}, Counts: map[string]string{"t": "1"}, Ready: map[string][]string{"t": {"a"}, "u": {"c"}},
			Buckets: map[string]string{"a": "t body of a", "b": "t body of b", "c": "u body of c"},
		})
		if _, lease := b.hold(t, "t", time.Minute); lease.Attempt != 2 {
			t.Errorf("attempt %d, want 2", lease.Attempt)
		}
		b.expectLost(t, a)
	})
}

// expectLost expects that every settlement fails.
func (b *backend) expectLost(t *testing.T, held LeaseRef) {
	t.Helper()
	for verb, err := range b.settleAll(t, held) {
		if !errors.Is(err, ErrLeaseLost) {
			t.Errorf("%s: error %v, want that the lease is lost", verb, err)
		}
	}
}

// settleAll tries all settlements.
func (b *backend) settleAll(t *testing.T, held LeaseRef) map[string]error {
	t.Helper()
	errs := map[string]error{}
	for verb := range settlements {
		errs[verb] = b.settleAs(t, verb, held)
	}
	return errs
}

// settlements are the calls of a holder.
var settlements = map[string]func(s *Store, held LeaseRef) *Call[[]error]{
	"ack": func(s *Store, held LeaseRef) *Call[[]error] { return s.Ack([]LeaseRef{held}) },
	"retry": func(s *Store, held LeaseRef) *Call[[]error] {
		return s.Retry([]Returned{{LeaseRef: held, Delay: time.Minute, Error: "why"}})
	},
	"release": func(s *Store, held LeaseRef) *Call[[]error] {
		return s.Retry([]Returned{{LeaseRef: held, Refund: true}})
	},
	"snooze": func(s *Store, held LeaseRef) *Call[[]error] {
		return s.Retry([]Returned{{LeaseRef: held, Refund: true, Delay: time.Minute}})
	},
	"bury": func(s *Store, held LeaseRef) *Call[[]error] { return s.Bury([]Burial{{held, "reason", "error"}}) },
	"extend": func(s *Store, held LeaseRef) *Call[[]error] {
		return s.Extend([]*Extension{{LeaseRef: held, Lease: time.Hour}})
	},
}

func (b *backend) settleAs(t *testing.T, verb string, held LeaseRef) error {
	t.Helper()
	return errorOf(settlements[verb](b.Store, held).Do(t.Context()))
}

// TestSettlements compares the state of Redis after each settlement.
func TestSettlements(t *testing.T) {
	other := texts{"o": "t body of o"}
	with := func(id string) texts { return texts{id: "t body of " + id, "o": "t body of o"} }
	wants := map[string]redistest.State{
		"ack":     {Ready: queues{"t": {"o"}}, Buckets: other},
		"retry":   {Pool: []string{"a"}, Ready: queues{"t": {"o"}}, Buckets: with("a")},
		"release": {Ready: queues{"t": {"a", "o"}}, Buckets: with("a")},
		"snooze":  {Pool: []string{"a"}, Ready: queues{"t": {"o"}}, Buckets: with("a")},
		"bury":    {Ready: queues{"t": {"o"}}, Buckets: other, Dead: queues{"t": {"a"}}, Letters: texts{"a": "t body of a"}},
		"extend":  {Reserved: []string{"a"}, Counts: texts{"t": "1"}, Ready: queues{"t": {"o"}}, Buckets: with("a")},
	}
	attempts := map[string]int{"retry": 1, "release": 0, "snooze": 0, "bury": 1, "extend": 1}
	onEach(t, func(t *testing.T, b *backend) {
		for verb, want := range wants {
			t.Run(verb, func(t *testing.T) {
				b.seed(t, ready("a", "t"), ready("o", "t"))
				held, _ := b.hold(t, "t", time.Minute)
				check(t, b.settleAs(t, verb, held))
				b.expect(t, want)
				found, err := b.Get(t.Context(), "a")
				if verb == "ack" {
					if !errors.Is(err, ErrNotFound) {
						t.Errorf("found %+v, %v", found, err)
					}
					return
				}
				if err != nil || found.Attempts != attempts[verb] {
					t.Errorf("%d attempts, want %d; %v", found.Attempts, attempts[verb], err)
				}
				states := map[string]string{"retry": "waiting", "release": "ready", "snooze": "waiting", "bury": "dead", "extend": "reserved"}
				errs := map[string]string{"retry": "why", "bury": "error"}
				if found.State != states[verb] || found.Error != errs[verb] || (found.Reason == "reason") != (verb == "bury") {
					t.Errorf("found %+v", found)
				}
			})
		}
	})
}

// Any other change of a reserved job ends the lease, and the holder can't change the job any more.
func TestFencing(t *testing.T) {
	cases := map[string]func(b *backend, t *testing.T, held LeaseRef) error{
		"pushed anew": func(b *backend, t *testing.T, _ LeaseRef) error {
			return b.push(t.Context(), Job{ID: "a", Topic: "t", Body: "new"}, Due{After: time.Minute}, kept, Replace)
		},
		"pushed anew, due at once": func(b *backend, t *testing.T, _ LeaseRef) error {
			return b.push(t.Context(), Job{ID: "a", Topic: "t", Body: "new"}, Due{}, kept, KeepEarlier)
		},
		"pushed anew under another topic": func(b *backend, t *testing.T, _ LeaseRef) error {
			return b.push(t.Context(), Job{ID: "a", Topic: "u", Body: "new"}, Due{After: time.Minute}, kept, KeepLater)
		},
		"pushed anew by an old client":              func(b *backend, t *testing.T, _ LeaseRef) error { b.pushAsOld(t, "a", "t", 60); return nil },
		"pushed anew by an old client, due at once": func(b *backend, t *testing.T, _ LeaseRef) error { b.pushAsOld(t, "a", "t", 0); return nil },
		"rescheduled":        func(b *backend, t *testing.T, _ LeaseRef) error { return b.Reschedule(t.Context(), "a", time.Minute) },
		"rescheduled to now": func(b *backend, t *testing.T, _ LeaseRef) error { return b.Reschedule(t.Context(), "a", 0) },
		"removed": func(b *backend, t *testing.T, _ LeaseRef) error {
			removed, err := b.remove(t.Context(), "a")
			if !removed {
				t.Error("it was not removed")
			}
			return err
		},
		"reserved by another": func(b *backend, t *testing.T, held LeaseRef) error {
			if err := b.settleAs(t, "release", held); err != nil {
				return err
			}
			b.hold(t, "t", time.Minute)
			return nil
		},
	}
	for verb := range settlements {
		if verb != "extend" {
			cases["settled by "+verb] = func(b *backend, t *testing.T, held LeaseRef) error { return b.settleAs(t, verb, held) }
		}
	}
	onEach(t, func(t *testing.T, b *backend) {
		for name, end := range cases {
			t.Run(name, func(t *testing.T) {
				b.seed(t, ready("a", "t"), field("a", "options", "5 0 604800000"))
				held, _ := b.hold(t, "t", time.Minute)
				check(t, end(b, t, held))
				was, scores := b.state(t), b.scores(t)
				b.expectLost(t, held)
				b.expect(t, was)
				if again := b.scores(t); fmt.Sprint(again) != fmt.Sprint(scores) {
					t.Errorf("scores %v, were %v", again, scores)
				}
				isHeld := name == "reserved by another"
				if kept := len(was.Counts) > 0; kept != isHeld && !strings.Contains(name, "old client") {
					t.Errorf("numbers of reserved jobs %v", was.Counts)
				}
			})
		}
	})
}

// If an old client takes a reserved job through a second queue entry, no settlement recreates the job.
func TestTakenByAnOldClient(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for verb := range settlements {
			b.seed(t, ready("a", "t"))
			held, _ := b.hold(t, "t", time.Minute)
			b.do(t, "LPUSH", "delayer:ready_queue:t", "a")
			b.do(t, "RPOP", "delayer:ready_queue:t")
			b.do(t, "DEL", "delayer:job_bucket:a")
			was := b.state(t)
			if err := b.settleAs(t, verb, held); !errors.Is(err, ErrLeaseLost) {
				t.Errorf("%s: %v", verb, err)
			}
			b.expect(t, was)
		}
	})
}

// A push replaces the job with all its earlier state.
func TestPushBeginsAnew(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for _, state := range []string{"ready", "reserved", "retried"} {
			b.seed(t, ready("a", "t"), field("a", "options", "5 1000 5", "lease", "3 5 0", "error", "e"))
			if state != "ready" {
				held, _ := b.hold(t, "t", time.Minute)
				if state == "retried" {
					b.settleAs(t, "retry", held)
				}
			}
			check(t, b.push(t.Context(), Job{ID: "a", Topic: "t", Body: "new"}, Due{}, kept, Replace))
			b.expect(t, redistest.State{Ready: map[string][]string{"t": {"a"}}, Buckets: map[string]string{"a": "t new"}})
			found, err := b.Get(t.Context(), "a")
			if err != nil || found.Attempts+found.MaxAttempts != 0 || found.Error != "" {
				t.Errorf("%s: %+v, %v", state, found, err)
			}
			if _, lease := b.hold(t, "t", 0); lease.Attempt != 1 || lease.Length != 30*time.Second {
				t.Errorf("%s: %+v", state, lease)
			}
		}
	})
}

// Two leases of a job may end in the same microsecond, for example if both run towards one deadline. Then only the second holder can
// settle the job.
func TestLeasesOfOneEnd(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for verb := range settlements {
			b.seed(t, ready("a", "t"))
			stale, first := b.hold(t, "t", time.Minute)
			check(t, b.settleAs(t, "release", stale))
			held, _ := b.hold(t, "t", time.Hour)
			b.do(t, "ZADD", "delayer:job_pool", unixSeconds(time.UnixMicro(first.End)), "a")
			was := b.state(t)
			b.expectLost(t, stale)
			b.expect(t, was)
			if err := b.settleAs(t, verb, held); err != nil {
				t.Errorf("%s: %v", verb, err)
			}
		}
	})
}

// If the answer to an extension is lost, the holder can settle with either end.
func TestUnknownExtension(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for verb := range settlements {
			b.seed(t, ready("a", "t"))
			held, _ := b.hold(t, "t", time.Minute)
			made(t, b.Extend([]*Extension{{LeaseRef: held, Lease: time.Hour}}))
			if err := b.settleAs(t, verb, held); err != nil { // with the previous end
				t.Errorf("%s: %v", verb, err)
			}
		}
	})
}

// A retry of a job without attempts left makes it a dead letter.
func TestRetryOfTheLastAttempt(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for _, c := range []struct {
			name           string
			own, consumers int
			dead           bool
		}{{"the job's own", 1, 9, true}, {"the consumer's", 0, 1, true}, {"more are left", 2, 1, false}, {"no limit", 0, 0, false}} {
			b.seed(t, ready("a", "t"))
			if c.own > 0 {
				b.do(t, "HSET", "delayer:job_bucket:a", "options", fmt.Sprintf("%d 0 604800000", c.own))
			}
			held, _ := b.hold(t, "t", time.Minute)
			errs := made(t, b.Retry([]Returned{{LeaseRef: held, Delay: time.Minute, MaxAttempts: c.consumers, Error: "last"}}))
			found, err := b.Get(t.Context(), "a")
			if err != nil || errors.Is(errs[0], ErrExhausted) != c.dead || (found.State == "dead") != c.dead || found.Error != "last" {
				t.Errorf("%s: %v, %+v, %v", c.name, errs, found, err)
			}
		}
	})
}

// If some jobs of a call are lost, each job gets its own result.
func TestSettleSeveral(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for verb := range settlements {
			b.seed(t, ready("a", "t"), ready("b", "u"), ready("c", "t"))
			a, _ := b.hold(t, "t", time.Minute)
			u, _ := b.hold(t, "u", time.Minute)
			c, _ := b.hold(t, "t", time.Minute)
			b.remove(t.Context(), "b")
			all := []LeaseRef{a, u, c}
			var call *Call[[]error]
			switch verb {
			case "ack":
				call = b.Ack(all)
			case "bury":
				call = b.Bury([]Burial{{a, "", ""}, {u, "", ""}, {c, "", ""}})
			case "extend":
				call = b.Extend([]*Extension{{LeaseRef: a, Lease: time.Hour}, {LeaseRef: u, Lease: time.Hour}, {LeaseRef: c, Lease: time.Hour}})
			default:
				var list []Returned
				for _, h := range all {
					list = append(list, Returned{LeaseRef: h, Refund: verb != "retry", Delay: map[string]time.Duration{"release": 0}[verb]})
				}
				call = b.Retry(list)
			}
			expectErrors(t, made(t, call), nil, ErrLeaseLost, nil)
			if counts := b.state(t).Counts; (verb == "extend") != (counts["t"] == "2") || counts["u"] != "" {
				t.Errorf("%s: numbers of reserved jobs %v", verb, counts)
			}
		}
	})
}
