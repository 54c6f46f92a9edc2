package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// A job whose lease expires is kept until a pass over the pool finds it, however short its lifetime is. The lease neither uses up nor
// extends the lifetime.
func TestJobOutlivesItsLease(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		const lifetime = 20 * time.Second
		b.seed(t, ready("a", "t"), []command{{"PEXPIRE", "delayer:job_bucket:a", lifetime.Milliseconds()}})
		left := func(want time.Duration, what string) { t.Helper(); b.expectKept(t, want, what) }
		const seen = 2 * time.Minute
		held, _ := b.hold(t, "t", time.Second)
		left(time.Second+seen, "reserved")
		extend := func(lease time.Duration) {
			made(t, b.Extend([]*Extension{{LeaseRef: held, Lease: lease}}))
		}
		extend(1000 * time.Second)
		left(1000*time.Second+seen, "extended")
		extend(30 * time.Second)
		left(30*time.Second+seen, "shortened")
		made(t, b.Retry([]Returned{{LeaseRef: held}}))
		left(lifetime, "given back")
		for range 3 {
			_, lease := b.hold(t, "t", 30*time.Millisecond)
			left(seen, "reserved for a moment")
			b.await(t, lease.End)
			b.moveDue(t)
			left(seen, "its lease has ended")
		}
	}, alone)
}

// await waits until a time by Redis's clock, in Unix µs.
func (b *backend) await(t *testing.T, at int64) {
	t.Helper()
	for b.clock(t) <= float64(at)/1e6 {
		time.Sleep(time.Millisecond)
	}
}

// A job that can't be made a dead letter is deferred and reported, and delays neither the jobs behind it nor other topics, even at
// maxmemory. It is buried once that is possible.
func TestReserveDefers(t *testing.T) {
	t.Parallel()
	b, user := onRedisAs(t)
	seed := func(limit int, more ...[]command) {
		b.seed(t, append(more, ready("a", "t"), field("a", "options", "1 0 604800000", "lease", "1 5 0"), ready("b", "t"), ready("c", "u"))...)
		b.do(t, "CONFIG", "SET", "maxmemory", limit, "maxmemory-policy", "noeviction")
	}
	for _, limit := range []int{0, 1} {
		for _, c := range []struct {
			name  string
			kind  Kind
			seed  []command
			other texts
		}{
			{"dead letters of another type", WrongType, text("dead_letters:t"), texts{"delayer:dead_letters:t": "string"}},
			{"no right to rename", Denied, nil, nil},
		} {
			b.do(t, "ACL", "SETUSER", "u", "-rename")
			seed(limit, c.seed)
			var got Popped
			took := b.timed(t, func() { got = user.reserve(t, 9, Reservation{Lease: time.Minute}, "t", "u") })
			b.do(t, "CONFIG", "SET", "maxmemory", 0)
			if len(got.Jobs) != 2 || len(got.Deferred) != 1 || got.Deferred[0].Topic != "t" || got.Deferred[0].ID != "a" || KindOf(got.Deferred[0].Why) != c.kind {
				t.Errorf("%s, maxmemory %d: %+v", c.name, limit, got)
			}
			b.expect(t, redistest.State{
				Pool: []string{"a"}, Reserved: []string{"b", "c"}, Counts: texts{"t": "1", "u": "1"},
				Buckets: texts{"a": "t body of a", "b": "t body of b", "c": "u body of c"}, Other: c.other,
			})
			due, _ := b.due(t, "a")
			took.expectAfter(t, "the next try", due, 5*time.Second)

			b.do(t, "ACL", "SETUSER", "u", "+@all")
			b.do(t, "DEL", "delayer:dead_letters:t")
			check(t, b.Reschedule(t.Context(), "a", 0))
			if got := user.reserve(t, 9, Reservation{}, "t"); len(got.Jobs)+len(got.Deferred) > 0 {
				t.Errorf("%+v", got)
			}
			b.expect(t, redistest.State{
				Reserved: []string{"b", "c"}, Counts: texts{"t": "1", "u": "1"}, Buckets: texts{"b": "t body of b", "c": "u body of c"},
				Dead: map[string][]string{"t": {"a"}}, Letters: texts{"a": "t body of a"},
			})
		}
	}
}

// Deferred jobs are reported even if no job is returned and another topic's queue is broken. The next call reports that queue.
func TestReserveTellsOfDeferredBehindABrokenQueue(t *testing.T) {
	t.Parallel()
	b, user := onRedisAs(t)
	b.do(t, "ACL", "SETUSER", "u", "-rename")
	for _, topics := range [][]string{{"t", "broken"}, {"broken", "t"}} {
		b.seed(t, ready("a", "t"), field("a", "options", "1 0 604800000", "lease", "1 5 0"), text("ready_queue:broken"))
		got := user.reserve(t, 9, Reservation{}, topics...)
		if len(got.Jobs) > 0 || len(got.Deferred) != 1 || got.Deferred[0].ID != "a" || !got.More {
			t.Errorf("%q: %+v", topics, got)
		}
		if _, err := user.Reserve(Wanted{Topics: topics, N: 9}, Reservation{}).Do(t.Context()); !begins(err, "WRONGTYPE") {
			t.Errorf("%q: the next call: %v", topics, err)
		}
	}
}

// pushAsOld pushes a job like the original's clients.
func (b *backend) pushAsOld(t *testing.T, id, topic string, delay int) {
	t.Helper()
	for _, c := range []command{
		{"MULTI"}, {"HMSET", "delayer:job_bucket:" + id, "topic", topic, "body", "new"}, {"EXPIRE", "delayer:job_bucket:" + id, delay + 604800},
		{"ZADD", "delayer:job_pool", int(b.clock(t)) + delay, id}, {"EXEC"},
	} {
		b.do(t, c[0].(string), c[1:]...)
	}
}

// moveAsOld moves a job like the original's server.
func (b *backend) moveAsOld(t *testing.T, id, topic string) {
	t.Helper()
	for _, c := range []command{{"MULTI"}, {"ZREM", "delayer:job_pool", id}, {"LPUSH", "delayer:ready_queue:" + topic, id}, {"EXEC"}} {
		b.do(t, c[0].(string), c[1:]...)
	}
}

// A job that an old client pushes again starts afresh, whatever its state was and whichever program moves it: it has all its attempts,
// and the options of the earlier push are gone. Any other job keeps its count, whatever its lifetime.
func TestOldPushBeginsAnew(t *testing.T) {
	given := func(verb string) func(b *backend, t *testing.T, held LeaseRef) {
		return func(b *backend, t *testing.T, held LeaseRef) {
			check(t, b.settleAs(t, verb, held))
		}
	}
	befores := map[string]func(b *backend, t *testing.T, held LeaseRef){
		"reserved": func(*backend, *testing.T, LeaseRef) {},
		"extended": given("extend"),
		"retried":  given("retry"),
		"rescheduled": func(b *backend, t *testing.T, held LeaseRef) {
			check(t, b.Reschedule(t.Context(), "a", time.Hour))
		},
		"rescheduled while it waits for a retry": func(b *backend, t *testing.T, held LeaseRef) {
			given("retry")(b, t, held)
			check(t, b.Reschedule(t.Context(), "a", time.Hour))
		},
	}
	const week = 7 * 24 * time.Hour
	lifetimes := map[string]time.Duration{"usual": week, "short": 20 * time.Second, "an hour": time.Hour, "longer": 30 * 24 * time.Hour}
	onEach(t, func(t *testing.T, b *backend) {
		for before, do := range befores {
			for name, lifetime := range lifetimes {
				for n := range 3 {
					old, again := n > 0, n > 1
					b.seed(t, ready("a", "t"), field("a", "options", fmt.Sprintf("5 7000 %d", lifetime.Milliseconds())), []command{{"PEXPIRE", "delayer:job_bucket:a", lifetime.Milliseconds()}})
					if lifetime >= week { // the default lifetime, so the job has no options
						b.do(t, "HDEL", "delayer:job_bucket:a", "options")
					}
					held, _ := b.hold(t, "t", time.Minute)
					do(b, t, held)
					was := b.state(t)
					want := Lease{Attempt: 2, Length: 7 * time.Second, MaxAttempts: 5}
					if lifetime >= week {
						want.Length, want.MaxAttempts = 30*time.Second, 0
					}
					if old {
						delay := 3600 + int(lifetime.Seconds()) // later than the previous due time in any case
						b.pushAsOld(t, "a", "t", delay)
						if again { // it has started afresh all the same
							check(t, b.Reschedule(t.Context(), "a", time.Hour))
						}
						want = Lease{Attempt: 1, Length: 30 * time.Second}
					}
					b.moveAsOld(t, "a", "t")
					_, got := b.hold(t, "t", 0)
					if found, err := b.Get(t.Context(), "a"); err != nil || found.MaxAttempts != want.MaxAttempts || old && found.Error != "" {
						t.Errorf("%s, lifetime %s, pushed anew: %v: %+v, %v", before, name, old, found, err)
					}
					got.End, got.Token, got.Late = 0, 0, 0
					if got != want {
						t.Errorf("%s, lifetime %s, pushed anew: %v: %+v, want %+v; before %+v", before, name, old, got, want, was)
					}
				}
			}
		}
	})
}

// A script that pauses between its readings of the clock on a busy machine may compute too early an expiry for a bucket. That does not
// count as a new push.
func TestBucketOfASlowScriptIsNotPushedAnew(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, ready("a", "t"), field("a", "options", "5 7000 3600000"), []command{{"PEXPIRE", "delayer:job_bucket:a", 3600_000}})
		held, _ := b.hold(t, "t", time.Minute)
		check(t, b.settleAs(t, "release", held))
		left := b.do(t, "PTTL", "delayer:job_bucket:a").(int64)
		b.do(t, "PEXPIRE", "delayer:job_bucket:a", left+400)
		if _, got := b.hold(t, "t", 0); got.Attempt != 1 || got.MaxAttempts != 5 || got.Length != 7*time.Second {
			t.Errorf("got %+v", got)
		}
	})
}

// If an old client pushes a reserved job with one attempt again, it is delivered and makes no dead letter. If the lease expired, the job
// becomes a dead letter.
func TestOldPushOfALastAttempt(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for _, old := range []bool{true, false} {
			b.seed(t)
			terms := Terms{Lifetime: 7 * 24 * time.Hour, Policy: Replace, MaxAttempts: 1}
			expectErrors(t, made(t, b.Push([]Delayed{{Job{ID: "a", Topic: "t", Body: "body"}, Due{}, terms, nil}})), nil)
			_, lease := b.hold(t, "t", 30*time.Millisecond)
			if old {
				b.pushAsOld(t, "a", "t", 1)
				b.moveAsOld(t, "a", "t")
			} else {
				b.await(t, lease.End)
				b.moveDue(t)
			}
			got := b.reserve(t, 9, Reservation{Lease: time.Minute}, "t")
			want := redistest.State{Dead: map[string][]string{"t": {"a"}}, Letters: map[string]string{"a": "t body"}}
			if old {
				want = redistest.State{Reserved: []string{"a"}, Buckets: map[string]string{"a": "t new"}}
			}
			have := b.state(t)
			want.Counts = have.Counts // old clients do not maintain them
			if len(got.Jobs) == 1 != old {
				t.Errorf("pushed anew: %v, got %+v", old, got)
			}
			b.expect(t, want)
		}
	})
}

// If an expired lease extended the lifetime of a job, Overdue counts from when the job became ready again.
func TestOverdueAfterALease(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, ready("a", "t"), field("a", "options", "0 0 20000"), []command{{"PEXPIRE", "delayer:job_bucket:a", 117_000}})
		token := (b.clock(t) - 1000) * 1e6
		b.do(t, "HSET", "delayer:job_bucket:a", "lease", fmt.Sprintf("1 %.0f 1100000 0", token))
		stats, err := b.Stats(t.Context(), []string{"t"}, true)
		if err != nil || len(stats.Topics) != 1 {
			t.Fatalf("%+v, %v", stats, err)
		}
		if got := stats.Topics[0].Overdue; got < 3*time.Second || got > 13*time.Second {
			t.Errorf("overdue for %v, want 3s", got)
		}
	})
}
