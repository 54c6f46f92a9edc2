package devredis_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/devredis"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

func start(t *testing.T, users ...devredis.User) *redistest.Fixture {
	t.Helper()
	s, err := devredis.Start("127.0.0.1:0", users...)
	redistest.Check(t, err)
	t.Cleanup(s.Close)
	return redistest.On(t, s.Addr)
}

func dial(t *testing.T, f *redistest.Fixture, options ...redis.DialOption) redis.Conn {
	t.Helper()
	c, err := redis.Dial("tcp", f.Addr, options...)
	redistest.Check(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// TTLs follow the real clock and are not (much) faster.
func TestTTL(t *testing.T) {
	f := start(t)
	began := time.Now()
	f.Do("SET", "short", "1", "PX", 200)
	f.Do("SET", "long", "1")
	f.Do("EXPIRE", "long", 100)
	redistest.Until(t, "the key expires", func() bool { return f.Do("GET", "short") == nil })
	if took := time.Since(began); took < 150*time.Millisecond {
		t.Errorf("200 ms were over after %v", took)
	}
	elapsed := time.Since(began).Milliseconds()
	if ttl := f.Do("PTTL", "long").(int64); ttl > 100_000-200+50 || ttl < 100_000-elapsed-50 {
		t.Errorf("%d ms left of 100 s after %d ms", ttl, elapsed)
	}
}

// TTLs are cheap even with many keys. With miniredis's own clock this takes longer than the test allows.
func TestTTLOfManyKeys(t *testing.T) {
	f := start(t)
	c := f.Conn()
	began := time.Now()
	const keys = 20000
	for n := range keys {
		c.Send("HSET", n, "topic", "t", "body", "b")
	}
	c.Send("SET", "short", 1, "PX", 1)
	redistest.Check(t, c.Flush())
	for range keys + 1 {
		_, err := c.Receive()
		redistest.Check(t, err)
		if time.Since(began) > redistest.HangBound {
			t.Fatalf("%d keys take more than %v", keys, redistest.HangBound)
		}
	}
	redistest.Until(t, "the key expires", func() bool { return f.Do("GET", "short") == nil })
}

func TestClock(t *testing.T) {
	f := start(t)
	before := float64(time.Now().UnixMicro()-1) / 1e6
	first := f.Clock()
	inScript := redistest.Seconds(t, f.Do("EVAL", "return redis.call('TIME')", 0))
	now := float64(time.Now().UnixMicro()+1) / 1e6
	if first < before-1 || inScript < first || now < inScript { // it may stand still for a while
		t.Errorf("%f, TIME %f, in a script %f, %f", before, first, inScript, now)
	}
}

// A client that waits without taking, like Delayer's, is woken by a push.
func TestBlockingMove(t *testing.T) {
	f := start(t)
	waiter := dial(t, f)
	waiter.Send("BLMOVE", "q", "q", "RIGHT", "RIGHT", 0)
	redistest.Check(t, waiter.Flush())
	f.Do("LPUSH", "q", "a", "b")
	if first, err := redis.String(redis.ReceiveWithTimeout(waiter, redistest.HangBound)); first != "a" || err != nil {
		t.Errorf("%q, %v", first, err)
	}
	if all := f.Strings("LRANGE", "q", 0, -1); strings.Join(all, " ") != "b a" {
		t.Errorf("%q", all)
	}
}

// Close does not wait for blocked clients.
func TestCloseWithWaitingClient(t *testing.T) {
	s, err := devredis.Start("127.0.0.1:0")
	redistest.Check(t, err)
	f := redistest.On(t, s.Addr)
	waiter := dial(t, f)
	waiter.Send("BLMOVE", "q", "q", "RIGHT", "RIGHT", 0)
	waiter.Flush()
	f.Do("PING")
	closed := make(chan struct{})
	go func() { s.Close(); close(closed) }()
	redistest.Receive(t, closed)
	if _, err := redis.ReceiveWithTimeout(waiter, redistest.HangBound); err == nil {
		t.Error("the waiting client got an answer")
	}
}

func TestUsers(t *testing.T) {
	f := start(t, devredis.User{Password: "right"}, devredis.User{Name: "delayer", Password: "secret"})
	if _, err := f.Conn().Do("GET", "key"); err == nil || !strings.HasPrefix(err.Error(), "NOAUTH") {
		t.Errorf("without a password: %v", err)
	}
	for _, user := range [][]redis.DialOption{{redis.DialPassword("right")}, {redis.DialUsername("delayer"), redis.DialPassword("secret")}} {
		_, err := dial(t, f, user...).Do("GET", "key")
		redistest.Check(t, err)
	}
	_, err := redis.Dial("tcp", f.Addr, redis.DialPassword("secret"))
	if err == nil || !strings.HasPrefix(err.Error(), "WRONGPASS") {
		t.Errorf("another's password: %v", err)
	}
}

func TestTakenAddress(t *testing.T) {
	if s, err := devredis.Start(start(t).Addr); err == nil {
		s.Close()
		t.Error("two on one address")
	}
}

func TestDatabases(t *testing.T) {
	f := start(t)
	third := dial(t, f, redis.DialDatabase(3))
	_, err := third.Do("SET", "key", 1)
	redistest.Check(t, err)
	if value := f.Do("GET", "key"); value != nil {
		t.Errorf("database 0: %q", value)
	}
	if value, err := redis.String(third.Do("GET", "key")); value != "1" || err != nil {
		t.Errorf("database 3: %q, %v", value, err)
	}
}
