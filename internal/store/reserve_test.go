package store

import (
	"errors"
	"math"
	"slices"
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

var reserveCases = []struct {
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

func TestReserve(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for _, c := range reserveCases {
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
		b.do(t, "PERSIST", "delayer:job_bucket:a")
		held, _ = b.hold(t, "t", time.Minute)
		made(t, b.Extend([]*Extension{{LeaseRef: held, Lease: time.Hour}}))
		if at := b.expiry(t, "a"); !math.IsInf(at, 1) {
			t.Errorf("a job without a lifetime expires at %f when it is reserved", at)
		}
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
