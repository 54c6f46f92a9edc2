package store

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
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

// takes are the two ways to take jobs out of a queue.
var takes = map[string]func(s *Store, w Wanted) *Call[Popped]{
	"pop":     (*Store).Pop,
	"reserve": func(s *Store, w Wanted) *Call[Popped] { return s.Reserve(w, Reservation{Lease: time.Minute}) },
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
