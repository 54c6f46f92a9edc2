package store

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/redisconn"
)

// alive subscribes the waiters to their wake channels.
func (b *backend) alive(t *testing.T, waiters ...string) {
	t.Helper()
	channels, events := make([]string, len(waiters)), make([]Event, len(waiters))
	for i, waiter := range waiters {
		channels[i] = b.keys.Wake(waiter)
		events[i] = heard(channels[i])
	}
	expectEvents(t, b.subscribed(t, time.Minute, channels...), events...)
}

// stand registers waiters of the topic, the longest-waiting first.
func (b *backend) stand(t *testing.T, topic string, waiters ...string) {
	t.Helper()
	for i, waiter := range waiters {
		b.do(t, "ZADD", b.keys.Waiters(topic), i+1, waiter)
	}
}

// standing returns the waiters of the topic.
func (b *backend) standing(t *testing.T, topic string) []string {
	t.Helper()
	return b.With(t).Strings("ZRANGE", b.keys.Waiters(topic), 0, -1)
}

// since returns when the waiter began to wait for the topic, in Unix seconds.
func (b *backend) since(t *testing.T, topic, waiter string) float64 {
	t.Helper()
	µs, err := redis.Float64(b.do(t, "ZSCORE", b.keys.Waiters(topic), waiter), nil)
	check(t, err)
	return µs / 1e6
}

// expectWaitersKept checks for how long the topics' waiters are kept.
func (b *backend) expectWaitersKept(t *testing.T, topics ...string) {
	t.Helper()
	for _, topic := range topics {
		left := b.do(t, "PTTL", b.keys.Waiters(topic)).(int64)
		if most := WaitingFor.Milliseconds(); left <= most/2 || left > most {
			t.Errorf("the waiters of %s are kept for %d ms", topic, left)
		}
	}
}

// woken returns the wake-ups during the call, as "waiter: message".
func (b *backend) woken(t *testing.T, call func()) (all []string) {
	t.Helper()
	for _, line := range b.monitor(t, call) {
		if _, told, ok := strings.Cut(line, `"PUBLISH" "`+b.keys.Wake("")); ok {
			all = append(all, strings.Replace(strings.TrimSuffix(told, `"`), `" "`, ": ", 1))
		}
	}
	return all
}

// takes are the two ways to take jobs out of a queue.
var takes = map[string]func(s *Store, w Wanted) *Call[Popped]{
	"pop":     (*Store).Pop,
	"reserve": func(s *Store, w Wanted) *Call[Popped] { return s.Reserve(w, Reservation{Lease: time.Minute}) },
}

// looked returns the result of a poll.
func (b *backend) looked(t *testing.T, l Poll) Polled {
	t.Helper()
	found, err := b.poll(t, l)
	check(t, err)
	return found
}

// poll polls one store.
func (s *Store) poll(t *testing.T, l Poll) (found Polled, err error) {
	l.Store = s
	all, err := PollAll(t.Context(), l)
	if err == nil {
		found = all[0]
	}
	return found, err
}

// take takes jobs as the Store's user.
func (s *Store) take(t *testing.T, how string, w Wanted) Popped {
	t.Helper()
	return made(t, takes[how](s, w))
}

// A waiter is registered for topics with fewer jobs than wanted and, with Always, for topics whose jobs were all taken. It is not
// registered for topics from which no job was wanted, or that still have jobs.
func TestTakeEnters(t *testing.T) {
	one, two := [][]command{ready("a", "t")}, [][]command{ready("a", "t"), ready("b", "t")}
	const unknown = -1 // as there are no waiters
	for _, c := range []struct {
		name       string
		seed       [][]command
		topics     []string // default: t and u
		limits     []int
		n          int
		always     bool
		jobs       int
		left       []int
		registered []string
	}{
		{name: "no jobs", n: 1, registered: []string{"t", "u"}},
		{name: "fewer than were wanted", seed: one, n: 2, jobs: 1, registered: []string{"t", "u"}},
		{name: "as many as were wanted", seed: one, n: 1, jobs: 1, left: []int{unknown, 0}},
		{name: "as many as were wanted, always", seed: one, n: 1, always: true, jobs: 1, registered: []string{"t"}},
		{name: "some are left", seed: two, n: 1, jobs: 1, left: []int{unknown, 0}},
		{name: "some are left, always", seed: two, n: 1, always: true, jobs: 1, left: []int{1, 0}},
		{name: "as many as its limit", seed: one, limits: []int{1, 1}, n: 2, jobs: 1, left: []int{unknown, 0}, registered: []string{"u"}},
		{name: "as many as its limit, always", seed: one, limits: []int{1, 1}, n: 2, always: true, jobs: 1, registered: []string{"t", "u"}},
		{name: "fewer than its limit", seed: one, limits: []int{2, 1}, n: 2, jobs: 1, registered: []string{"t", "u"}},
		{name: "some are left beyond its limit", seed: two, limits: []int{1, 1}, n: 2, jobs: 1, left: []int{unknown, 0}, registered: []string{"u"}},
		{name: "nothing is wanted of it", seed: two, limits: []int{0, 1}, n: 1, always: true, registered: []string{"u"}},
		{name: "jobs behind an empty queue", seed: [][]command{ready("a", "u")}, n: 1, jobs: 1, left: []int{0, unknown}, registered: []string{"t"}},
		{name: "nothing but stale entries", seed: [][]command{ghosts("t", 3)}, topics: []string{"t"}, n: 1, registered: []string{"t"}},
		{name: "more stale entries than one call drops", seed: [][]command{ghosts("t", 1001)}, topics: []string{"t"}, n: 1},
	} {
		for how := range takes {
			t.Run(how+", "+c.name, func(t *testing.T) {
				onEach(t, func(t *testing.T, b *backend) {
					b.seed(t, c.seed...)
					topics, left := c.topics, c.left
					if topics == nil {
						topics = []string{"t", "u"}
					}
					if left == nil {
						left = make([]int, len(topics))
					}
					got := b.take(t, how, Wanted{topics, c.limits, c.n, Registration{"me", time.Second, c.always}})
					if len(got.Jobs) != c.jobs || !got.Registered || !slices.Equal(got.Remaining, left) {
						t.Errorf("took %+v", got)
					}
					for _, topic := range topics {
						if got, want := len(b.standing(t, topic)) == 1, slices.Contains(c.registered, topic); got != want {
							t.Errorf("is registered for %s: %v, want %v", topic, got, want)
						}
					}
				})
			})
		}
	}
}

// A call without a waiter registers none.
func TestTakeWithoutAWaiter(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for how := range takes {
			if got := b.take(t, how, Wanted{Topics: []string{"t"}, N: 1}); got.Registered {
				t.Errorf("%s: it stands where it was to be", how)
			}
		}
		if keys := b.With(t).Strings("KEYS", "*"); len(keys) > 0 {
			t.Errorf("there is %q", keys)
		}
	}, alone)
}

// A waiter's position is the time at which it began to wait, or now if it got a job. A position that it already has stays. Entries expire
// after a while.
func TestPositionOfAWaiter(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for how := range takes {
			b.seed(t, ready("a", "got"))
			b.stand(t, "stood", "me", "other")
			b.do(t, "PEXPIRE", b.keys.Waiters("stood"), 1000)
			b.stand(t, "new", "other")
			b.do(t, "PEXPIRE", b.keys.Waiters("new"), 1000)
			topics := []string{"got", "empty", "stood", "new"}
			var got Popped
			at := b.timed(t, func() { got = b.take(t, how, Wanted{topics, nil, 2, Registration{"me", 5 * time.Second, false}}) })
			if len(got.Jobs) != 1 || !got.Registered {
				t.Errorf("%s: %+v", how, got)
			}
			at.expectAfter(t, how+": where it got a job it waits since", b.since(t, "got", "me"), 0)
			at.expectAfter(t, how+": where it got none it waits since", b.since(t, "empty", "me"), -5*time.Second)
			if list := b.standing(t, "stood"); !slices.Equal(list, []string{"me", "other"}) || b.since(t, "stood", "me") != 1e-6 {
				t.Errorf("%s: where it stood there are %q", how, list)
			}
			b.expectWaitersKept(t, topics...)
		}
	})
}

// No waiter is registered for a broken queue, even if another topic has a job.
func TestTakeOfABrokenQueue(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for how := range takes {
			b.seed(t, text("ready_queue:t"), ready("a", "u"))
			got := b.take(t, how, Wanted{[]string{"t", "u"}, nil, 2, Registration{"me", time.Second, false}})
			if len(got.Jobs) != 1 || got.Registered || len(b.standing(t, "t")) > 0 {
				t.Errorf("%s: took %+v; %q are registered", how, got, b.standing(t, "t"))
			}
		}
	})
}

// Registration is optional: if the user may not register, or Redis is full, the call still returns its result.
func TestTakeWithoutEntering(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	full := func() { b.do(t, "CONFIG", "SET", "maxmemory", 1, "maxmemory-policy", "noeviction") }
	without := func(command string) func() { return func() { b.do(t, "ACL", "SETUSER", "u", "-"+command) } }
	for _, c := range []struct {
		name string
		seed [][]command
		deny func()
		how  []string
		jobs int
	}{
		{"full", nil, full, []string{"pop", "reserve"}, 0},
		{"no zadd", nil, without("zadd"), []string{"pop", "reserve"}, 0},
		{"no zadd, a job", [][]command{ready("a", "t")}, without("zadd"), []string{"pop"}, 1},
		{"no time", nil, without("time"), []string{"pop"}, 0},
		{"no time, a job", [][]command{ready("a", "t")}, without("time"), []string{"pop"}, 1},
		{"waiters of another type", [][]command{text("waiters:t"), ready("a", "t")}, func() {}, []string{"pop", "reserve"}, 1},
		{"one of the waiters of another type", [][]command{text("waiters:u")}, func() {}, []string{"pop", "reserve"}, 0},
	} {
		for _, how := range c.how {
			t.Run(how+", "+c.name, func(t *testing.T) {
				b.seed(t, c.seed...)
				b.SetUser("~* &* +@all")
				user := b.user()
				c.deny()
				defer b.do(t, "CONFIG", "SET", "maxmemory", 0)
				got := user.take(t, how, Wanted{[]string{"t", "u", "v"}, nil, 2, Registration{"me", 0, false}})
				if len(got.Jobs) != c.jobs || got.Registered {
					t.Errorf("took %+v", got)
				}
				for _, topic := range []string{"t", "u"} {
					if b.do(t, "TYPE", b.keys.Waiters(topic)) == "zset" && !strings.Contains(c.name, "type") {
						t.Errorf("it stands among the waiters of %s", topic)
					}
				}
			})
		}
	}
}

// Each operation that makes a job ready, or leaves ready jobs behind, wakes the longest-waiting client and no other.
func TestOneWaiterIsWoken(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t)
	b.alive(t, "first", "second")
	var held LeaseRef
	holds := func() { held, _ = b.hold(t, "t", time.Minute) }
	retry := func(r Returned) func() {
		return func() {
			r.LeaseRef = held
			made(t, b.Retry([]Returned{r}))
		}
	}
	job := func(id string, delay time.Duration) Delayed {
		return Delayed{Job{ID: id, Topic: "t", Body: "b"}, Due{After: delay}, Terms{Lifetime: kept, Policy: Replace}, nil}
	}
	push := func(jobs ...Delayed) func() {
		return func() {
			check(t, b.pushAll(t, jobs...))
		}
	}
	take := func(how string, limits []int, n int, topics ...string) func() {
		return func() { b.take(t, how, Wanted{Topics: topics, Limits: limits, N: n}) }
	}
	three := [][]command{ready("a", "t"), ready("b", "t"), ready("c", "t")}
	dead := [][]command{
		{{"HSET", "delayer:dead_letter:d", "topic", "t", "body", "b", "died", "1"}, {"ZADD", "delayer:dead_letters:t", 1, "d"}, {"ZADD", "delayer:dead_topics", 1, "t"}},
	}
	for _, c := range []struct {
		name   string
		seed   [][]command
		before func()
		call   func()
		want   string // message to the first, if any
	}{
		{"push", nil, nil, push(job("a", 0)), "1 t"},
		{"push of several", [][]command{ready("z", "t")}, nil, push(job("a", 0), job("b", time.Hour), job("c", 0)), "3 t"},
		{"delayed push", nil, nil, push(job("a", time.Hour)), ""},
		{"delayed push of several", nil, nil, push(job("a", time.Hour), job("b", time.Hour)), ""},
		{"move", [][]command{waits("a", "t", -second), waits("b", "t", -second)}, nil, func() { b.moveDue(t) }, "2 t"},
		{"move that moves none", [][]command{waits("a", "t", 60*second)}, nil, func() { check(t, errOf(b.move(batch("t", "a", "gone")))) }, ""},
		{"move of more than one chunk", nil, func() {
			b.do(t, "EVAL", "for i = 1, 3501 do redis.call('ZADD', KEYS[1], i, i) end", 1, "delayer:job_pool")
		}, func() {
			many := Batch{Topic: "t"}
			for i := range 3501 {
				many.IDs = append(many.IDs, []byte(fmt.Sprint(i+1)))
			}
			check(t, errOf(b.move(many)))
		}, "3501 t"},
		{"move at once", [][]command{waits("a", "t", -second), waits("b", "t", -second)}, nil, func() {
			if d, err := b.dueJobs(Query{Limit: 9, AtOnce: 9, Retry: time.Now()}); err != nil || len(d.Moved) != 1 || !d.Moved[0].Woken {
				t.Errorf("%+v, %v", d, err)
			}
		}, "2 t"},
		{"retry", three[:1], holds, retry(Returned{}), "1 t"},
		{"delayed retry", three[:1], holds, retry(Returned{Delay: time.Hour}), ""},
		{"last retry", three[:1], holds, retry(Returned{MaxAttempts: 1}), ""},
		{"release", three[:2], holds, retry(Returned{Refund: true}), "2 t"},
		{"ack", three[:2], holds, func() {
			made(t, b.Ack([]LeaseRef{held}))
		}, ""},
		{"requeue", dead, nil, func() {
			if errs, err := b.Requeue(t.Context(), []string{"d"}, kept); err != nil || errs[0] != nil {
				t.Error(errs, err)
			}
		}, "1 t"},
		{"reschedule to now", [][]command{waits("a", "t", 60*second)}, nil, func() { b.Reschedule(t.Context(), "a", 0) }, "1 t"},
		{"reschedule", [][]command{waits("a", "t", 60*second)}, nil, func() { b.Reschedule(t.Context(), "a", time.Hour) }, ""},
		{"pop of a misrouted ID", [][]command{content("a", "t"), entry("a", "other")}, nil, take("pop", nil, 1, "other"), "1 t"},
		{"reserve of a misrouted ID", [][]command{content("a", "t"), entry("a", "other")}, nil, take("reserve", nil, 1, "other"), "1 t"},
		{"pop that leaves jobs", three, nil, take("pop", nil, 1, "t"), "2 t"},
		{"reserve that leaves jobs", three, nil, take("reserve", nil, 1, "t"), "2 t"},
		{"pop that leaves jobs beyond a limit", three, nil, take("pop", []int{1, 9}, 9, "t", "other"), "2 t"},
		{"pop that leaves none", three, nil, take("pop", nil, 3, "t"), ""},
		{"pop that did not come to it", append(three, ready("z", "other")), nil, take("pop", nil, 1, "other", "t"), ""},
		{"pop that wants none of it", three, nil, take("pop", []int{0}, 1, "t"), ""},
		{"pop that stops early", [][]command{ghosts("t", 1002)}, nil, take("pop", nil, 1, "t"), "2 t"},
		{"purge that leaves jobs", three, nil, func() { b.Purge(t.Context(), "t", 1) }, ""},
		{"purge", three, nil, func() { b.Purge(t.Context(), "t", 9) }, ""},
		{"jobs that wait for nobody", nil, nil, func() { b.push(t.Context(), Job{ID: "a", Topic: "other", Body: "b"}, Due{}, kept, Replace) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.seed(t, c.seed...)
			if c.before != nil {
				c.before()
			}
			b.stand(t, "t", "first", "second")
			var want []string
			left := []string{"first", "second"}
			if c.want != "" {
				want, left = []string{"first: " + c.want}, left[1:]
			}
			if got := b.woken(t, c.call); !slices.Equal(got, want) {
				t.Errorf("woken: %q, want %q", got, want)
			}
			if got := b.standing(t, "t"); !slices.Equal(got, left) {
				t.Errorf("still waiting: %q, want %q", got, left)
			}
		})
	}
}

// Dead waiters are skipped, a bounded number per call so that Redis is not blocked.
func TestDeadWaiters(t *testing.T) {
	t.Parallel()
	const most = 100
	b, _ := onRedis(t)
	b.alive(t, "first", "second")
	for _, dead := range []int{1, most - 1, most, 2*most + 1} {
		b.seed(t)
		var waiters []string
		for n := range dead {
			waiters = append(waiters, fmt.Sprint("dead", n))
		}
		b.stand(t, "t", append(waiters, "first", "second")...)
		for calls := dead/most + 1; calls > 0; calls-- {
			told := b.woken(t, func() { b.push(t.Context(), Job{ID: fmt.Sprint(calls), Topic: "t", Body: "b"}, Due{}, kept, Replace) })
			if calls > 1 {
				if len(told) != most || strings.Contains(strings.Join(told, ""), "first") {
					t.Errorf("%d dead: %d are told in one call: %q", dead, len(told), told)
				}
			} else if n := dead % most; len(told) != n+1 || !strings.HasPrefix(told[n], "first: ") {
				t.Errorf("%d dead: woken at last: %q", dead, told)
			}
		}
		if left := b.standing(t, "t"); !slices.Equal(left, []string{"second"}) {
			t.Errorf("%d dead: %q are left", dead, left)
		}
	}
	b.seed(t)
	b.stand(t, "t", "dead", "dead too")
	if err := b.push(t.Context(), Job{ID: "a", Topic: "t", Body: "b"}, Due{}, kept, Replace); err != nil || len(b.standing(t, "t")) > 0 {
		t.Errorf("all dead: %v, left are %q", err, b.standing(t, "t"))
	}
}

// If Redis refuses to wake a client, the job still becomes ready.
func TestWakingIsNoCondition(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	b.alive(t, "me")
	for _, denied := range []string{"-zpopmin", "-publish", "resetchannels"} {
		b.seed(t)
		b.stand(t, "t", "me")
		b.SetUser("~* &* +@all " + denied)
		if err := b.user().push(t.Context(), Job{ID: "a", Topic: "t", Body: "b"}, Due{}, kept, Replace); err != nil || len(b.With(t).Queue("t")) != 1 {
			t.Errorf("%s: %v, ready are %q", denied, err, b.With(t).Queue("t"))
		}
	}
	b.seed(t, text("waiters:t"))
	check(t, b.push(t.Context(), Job{ID: "a", Topic: "t", Body: "b"}, Due{}, kept, Replace))
}

// A poll returns the lengths of the queues, registers the waiter for the empty ones where wanted, and reports where it was not registered
// before.
func TestPollRegisters(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		const topics = 2*maxPolled + 3
		full, stood, not, other := maxPolled+1, maxPolled-1, 1, 2*maxPolled
		l := Poll{Waiter: "me"}
		want := Polled{Registered: true}
		for i := range topics {
			l.Topics, l.Since = append(l.Topics, fmt.Sprint("t", i)), append(l.Since, 5*time.Second)
			want.Lengths, want.Added = append(want.Lengths, 0), append(want.Added, i != full && i != stood && i != not)
		}
		l.Since[not], want.Lengths[full] = -1, 2
		name := func(i int) string { return fmt.Sprint("t", i) }
		for _, some := range []bool{true, false} { // queues that have jobs
			b.seed(t)
			if some {
				b.seed(t, ready("a", name(full)), ready("b", name(full)))
			} else {
				want.Lengths[full], want.Added[full] = 0, true
			}
			for _, i := range []int{stood, other} {
				b.stand(t, name(i), "other")
				b.do(t, "PEXPIRE", b.keys.Waiters(name(i)), 1000)
			}
			b.do(t, "ZADD", b.keys.Waiters(name(stood)), 3, "me")
			var got Polled
			at := b.timed(t, func() {
				got = b.looked(t, l)
			})
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("got %+v", got)
			}
			for i, topic := range l.Topics {
				if got, want := slices.Contains(b.standing(t, topic), "me"), want.Added[i] || i == stood; got != want {
					t.Errorf("stands among the waiters of %s: %v, want %v", topic, got, want)
				}
			}
			at.expectAfter(t, "it waits since", b.since(t, name(0), "me"), -5*time.Second)
			if b.since(t, name(stood), "me") != 3e-6 {
				t.Error("it has lost its place")
			}
			b.expectWaitersKept(t, name(0), name(stood), name(other))
		}
	})
}

// A poll registers only a waiter with the time since it waits.
func TestLookWithoutAWaiter(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for _, l := range []Poll{
			{Topics: []string{"t"}},
			{Topics: []string{"t"}, Since: []time.Duration{time.Second}},
			{Topics: []string{"t"}, Waiter: "me"},
			{Topics: []string{"t"}, Waiter: "me", Since: []time.Duration{-1}},
			{Topics: []string{"t"}, Waiter: "me", Since: []time.Duration{-time.Hour}},
		} {
			got := b.looked(t, l)
			if want := (Polled{[]int{0}, true, []bool{false}}); !reflect.DeepEqual(got, want) || len(b.standing(t, "t")) > 0 {
				t.Errorf("%+v: got %+v; %q wait", l, got, b.standing(t, "t"))
			}
		}
		l := Poll{Topics: []string{"t"}, Waiter: "me", Since: []time.Duration{0}}
		if b.looked(t, l); len(b.standing(t, "t")) != 1 {
			t.Error("who begins to wait is not registered")
		}
	})
}

// A poll that can't register the waiter everywhere reports so, and still returns the lengths.
func TestLookWithoutEntering(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	l := Poll{Waiter: "me"}
	for i := range maxPolled + 1 {
		l.Topics, l.Since = append(l.Topics, fmt.Sprint("t", i)), append(l.Since, 0)
	}
	for name, deny := range map[string]func(){
		"full":               func() { b.do(t, "CONFIG", "SET", "maxmemory", 1, "maxmemory-policy", "noeviction") },
		"no zadd":            func() { b.do(t, "ACL", "SETUSER", "u", "-zadd") },
		"no time":            func() { b.do(t, "ACL", "SETUSER", "u", "-time") },
		"in the first call":  func() { b.do(t, "SET", b.keys.Waiters("t0"), "text") },
		"in the second call": func() { b.do(t, "SET", b.keys.Waiters(fmt.Sprint("t", maxPolled)), "text") },
	} {
		b.seed(t, ready("a", "t3"))
		b.SetUser("~* &* +@all")
		user := b.user()
		deny()
		got := user.looked(t, l)
		b.do(t, "CONFIG", "SET", "maxmemory", 0)
		if got.Registered || got.Lengths[3] != 1 || got.Lengths[2] != 0 {
			t.Errorf("%s: registered %v, lengths %v", name, got.Registered, got.Lengths[:5])
		}
	}
}

// A poll without permission does not return an error. The next pop does.
func TestPollWithoutPermission(t *testing.T) {
	t.Parallel()
	b, user := onRedisAs(t)
	b.do(t, "ACL", "SETUSER", "u", "-evalsha")
	got, err := user.poll(t, Poll{Waiter: "me", Topics: []string{"t", "u"}, Since: []time.Duration{0, 0}})
	if want := []int{1, 1}; err != nil || !slices.Equal(got.Lengths, want) {
		t.Errorf("got %+v, %v; want lengths %v", got, err, want)
	}
}

// A poll on a lost connection returns an error.
func TestLookOfALostConnection(t *testing.T) {
	t.Parallel()
	b, server := onRedis(t, alone)
	b.looked(t, Poll{Topics: []string{"t"}})
	server.Kill()
	if got, err := b.poll(t, Poll{Topics: []string{"t"}}); err == nil || !reflect.DeepEqual(got, Polled{}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// An idle connection is not tested before a poll. If it is dead, the poll uses another one.
func TestPollOnAnIdleConnection(t *testing.T) {
	t.Parallel()
	b, server := onRedis(t, alone)
	rested := func(ctx context.Context, conn redis.Conn, _ time.Time) error {
		return redisconn.CheckRested(ctx, conn, time.Time{})
	}
	pool := &redis.Pool{MaxIdle: 1, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", server.Addr) }, TestOnBorrowContext: rested}
	defer pool.Close()
	user := newBackend(b.Fixture, pool)
	b.seed(t, entry("a", "t"))
	for _, spoil := range []string{"nothing", "CLIENT KILL TYPE normal SKIPME yes", "nothing"} {
		if words := strings.Fields(spoil); len(words) > 1 {
			server.Do(words[0], redis.Args{}.AddFlat(words[1:])...)
		}
		if got := user.looked(t, Poll{Topics: []string{"t"}}); !slices.Equal(got.Lengths, []int{1}) {
			t.Errorf("%s: %+v", spoil, got)
		}
	}
	if n := b.Calls("ping"); n != 0 {
		t.Errorf("%d PINGs, want none", n)
	}
}

// A client that was woken in vain wakes the next one, if there are jobs.
func TestSendWake(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t)
	b.alive(t, "me")
	b.seed(t, text("ready_queue:broken"), ready("a", "two"), ready("b", "two"), ready("c", "one"), ready("d", "unasked"))
	for _, topic := range []string{"broken", "two", "one", "unasked", "empty"} {
		b.stand(t, topic, "me")
	}
	got := b.woken(t, func() {
		// Redis does not know the script yet.
		check(t, errOf(b.Wake([]string{"empty", "broken", "two", "nobody", "one"}).Do(t.Context())))
	})
	if want := []string{"me: 2 two", "me: 1 one"}; !slices.Equal(got, want) {
		t.Errorf("woken: %q, want %q", got, want)
	}
	for topic, n := range map[string]int{"broken": 1, "two": 0, "one": 0, "unasked": 1, "empty": 1} {
		if got := len(b.standing(t, topic)); got != n {
			t.Errorf("%d wait for %s, want %d", got, topic, n)
		}
	}
}

// A message contains the number of jobs and the topic, whatever its name. An invalid message counts as one job.
func TestReadWake(t *testing.T) {
	for message, want := range map[string]string{
		"3 t": "3 t", "1 a b\xff": "1 a b\xff", "12 ": "12 ", "0 t": "1 t", "-3 t": "1 t", "x t": "1 t", "": "1 ", "t": "1 ",
	} {
		topic, jobs := ReadWake([]byte(message))
		if got := fmt.Sprint(jobs, " ", topic); got != want {
			t.Errorf("%q is %q, want %q", message, got, want)
		}
	}
}

// A server that wakes waiters has registered itself.
func TestServed(t *testing.T) {
	t.Parallel()
	b, server := onRedis(t, alone)
	if b.Served(t.Context()) {
		t.Error("there is a server")
	}
	b.registered(t, "server", time.Second, ServerState{Interval: time.Second})
	if !b.Served(t.Context()) {
		t.Error("there is no server")
	}
	b.SetUser("~* &* +@all -hrandfield")
	if !b.user().Served(t.Context()) {
		t.Error("who may not know when a server was heard of knows none")
	}
	b.do(t, "HSET", b.keys.Servers(), "server", `{"now":1,"started":1,"interval":1000,"lateness":[]}`)
	if b.Served(t.Context()) {
		t.Error("a server that is gone runs")
	}
	server.Kill()
	if b.Served(t.Context()) {
		t.Error("a Redis that is away has a server")
	}
}

// A topic may have a zero byte, at which C ends a text; so may a limit's tag.
func TestZeroByte(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t)
	const topic, inMonitor = "a\x00b", `me: 1 a\x00b`
	b.alive(t, "me")
	for _, set := range []string{b.keys.Waiters(topic), b.keys.ThrottledWaiters(topic)} {
		b.seed(t, ready("r", topic))
		b.do(t, "ZADD", set, 1, "me")
		if got := b.woken(t, func() { made(t, b.Wake([]string{topic})) }); !slices.Equal(got, []string{inMonitor}) {
			t.Errorf("%s: woken %q", set, got)
		}
	}
	limit := Limit{Concurrency: 5, Tag: topic}
	check(t, b.SetLimit(t.Context(), topic, limit, wholeShare(limit)))
	if got, err := b.Limit(t.Context(), topic); got != limit || err != nil {
		t.Errorf("the limit is %+v, %v, want %+v", got, err, limit)
	}
}

// One call finds as many dead waiters, and parks as many jobs of paused topics, whether they are of one topic or of many.
func TestDeadWaitersOfManyTopics(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t)
	const each = 60 // of three topics: more than one call finds
	var jobs []Delayed
	var held []LeaseRef
	for _, topic := range []string{"a", "b", "c"} {
		jobs = append(jobs, Delayed{Job{ID: "of " + topic, Topic: topic, Body: "b"}, Due{}, Terms{Lifetime: kept, Policy: Replace}, nil})
	}
	stand := func(set func(string) string) {
		for _, job := range jobs {
			for n := range each {
				b.do(t, "ZADD", set(job.Topic), n, fmt.Sprint("dead", n))
			}
		}
	}
	for _, c := range []struct {
		name   string
		before func()
		call   func()
	}{
		{"waiting", func() { stand(b.keys.Waiters) }, func() { check(t, b.pushAll(t, jobs...)) }},
		{"throttled", func() {
			for _, job := range jobs {
				limit := Limit{Concurrency: 1}
				check(t, b.SetLimit(t.Context(), job.Topic, limit, wholeShare(limit)))
				check(t, b.push(t.Context(), job.Job, Due{}, kept, Replace))
				check(t, b.push(t.Context(), Job{ID: "more of " + job.Topic, Topic: job.Topic, Body: "b"}, Due{}, kept, Replace))
				one, _ := b.hold(t, job.Topic, time.Minute)
				held = append(held, one)
			}
			stand(b.keys.ThrottledWaiters)
		}, func() { made(t, b.Ack(held)) }},
	} {
		b.seed(t)
		c.before()
		if told := b.woken(t, c.call); len(told) != 100 {
			t.Errorf("%s: %d are told in one call", c.name, len(told))
		}
	}
	b.seed(t, ghosts("a", 800), ghosts("b", 800))
	for _, topic := range []string{"a", "b"} {
		b.do(t, "HSET", "delayer:paused", topic, "1 0 0 0 ")
		b.do(t, "HSET", b.keys.Waiters(topic), "paused", "1")
	}
	check(t, b.pushAll(t, jobs[:2]...))
	if parked := len(b.state(t).Paused["a"]) + len(b.state(t).Paused["b"]); parked != 1000 {
		t.Errorf("%d jobs are parked in one call", parked)
	}
}
