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

// looked returns the result of a poll.
func (b *backend) looked(t *testing.T, l Check) Checked {
	t.Helper()
	found, err := b.poll(t, l)
	check(t, err)
	return found
}

// poll polls one store.
func (s *Store) poll(t *testing.T, l Check) (found Checked, err error) {
	l.Store = s
	all, err := CheckAll(t.Context(), l)
	if err == nil {
		found = all[0]
	}
	return found, err
}

// A poll returns the lengths of the queues, registers the waiter for the empty ones where wanted, and reports where it was not registered
// before.
func TestPollRegisters(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		const topics = 2*maxChecked + 3
		full, stood, not, other := maxChecked+1, maxChecked-1, 1, 2*maxChecked
		l := Check{Waiter: "me"}
		want := Checked{Registered: true}
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
			var got Checked
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
		for _, l := range []Check{
			{Topics: []string{"t"}},
			{Topics: []string{"t"}, Since: []time.Duration{time.Second}},
			{Topics: []string{"t"}, Waiter: "me"},
			{Topics: []string{"t"}, Waiter: "me", Since: []time.Duration{-1}},
			{Topics: []string{"t"}, Waiter: "me", Since: []time.Duration{-time.Hour}},
		} {
			got := b.looked(t, l)
			if want := (Checked{[]int{0}, true, []bool{false}}); !reflect.DeepEqual(got, want) || len(b.standing(t, "t")) > 0 {
				t.Errorf("%+v: got %+v; %q wait", l, got, b.standing(t, "t"))
			}
		}
		l := Check{Topics: []string{"t"}, Waiter: "me", Since: []time.Duration{0}}
		if b.looked(t, l); len(b.standing(t, "t")) != 1 {
			t.Error("who begins to wait is not registered")
		}
	})
}

// A poll that can't register the waiter everywhere reports so, and still returns the lengths.
func TestLookWithoutEntering(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	l := Check{Waiter: "me"}
	for i := range maxChecked + 1 {
		l.Topics, l.Since = append(l.Topics, fmt.Sprint("t", i)), append(l.Since, 0)
	}
	for name, deny := range map[string]func(){
		"full":               func() { b.do(t, "CONFIG", "SET", "maxmemory", 1, "maxmemory-policy", "noeviction") },
		"no zadd":            func() { b.do(t, "ACL", "SETUSER", "u", "-zadd") },
		"no time":            func() { b.do(t, "ACL", "SETUSER", "u", "-time") },
		"in the first call":  func() { b.do(t, "SET", b.keys.Waiters("t0"), "text") },
		"in the second call": func() { b.do(t, "SET", b.keys.Waiters(fmt.Sprint("t", maxChecked)), "text") },
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
	got, err := user.poll(t, Check{Waiter: "me", Topics: []string{"t", "u"}, Since: []time.Duration{0, 0}})
	if want := []int{1, 1}; err != nil || !slices.Equal(got.Lengths, want) {
		t.Errorf("got %+v, %v; want lengths %v", got, err, want)
	}
}

// A poll on a lost connection returns an error.
func TestLookOfALostConnection(t *testing.T) {
	t.Parallel()
	b, server := onRedis(t, alone)
	b.looked(t, Check{Topics: []string{"t"}})
	server.Kill()
	if got, err := b.poll(t, Check{Topics: []string{"t"}}); err == nil || !reflect.DeepEqual(got, Checked{}) {
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
		if got := user.looked(t, Check{Topics: []string{"t"}}); !slices.Equal(got.Lengths, []int{1}) {
			t.Errorf("%s: %+v", spoil, got)
		}
	}
	if n := b.Calls("ping"); n != 0 {
		t.Errorf("%d PINGs, want none", n)
	}
}
