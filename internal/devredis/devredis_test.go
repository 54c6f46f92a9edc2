package devredis_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/devredis"
)

const patience = 30 * time.Second

func start(t *testing.T, users ...devredis.User) *devredis.Server {
	t.Helper()
	s, err := devredis.Start("127.0.0.1:0", users...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func dial(t *testing.T, s *devredis.Server, options ...redis.DialOption) redis.Conn {
	t.Helper()
	c, err := redis.Dial("tcp", s.Addr, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func do(t *testing.T, c redis.Conn, command string, args ...any) any {
	t.Helper()
	reply, err := c.Do(command, args...)
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return reply
}

// TTLs run down by the real clock, and not (much) faster.
func TestTTL(t *testing.T) {
	c := dial(t, start(t))
	began := time.Now()
	do(t, c, "SET", "short", "1", "PX", 200)
	do(t, c, "SET", "long", "1")
	do(t, c, "EXPIRE", "long", 100)
	for do(t, c, "GET", "short") != nil {
		if time.Since(began) > patience {
			t.Fatal("the key never expires")
		}
		time.Sleep(time.Millisecond)
	}
	if took := time.Since(began); took < 150*time.Millisecond {
		t.Errorf("200 ms were over after %v", took)
	}
	elapsed := time.Since(began).Milliseconds()
	if ttl, err := redis.Int64(c.Do("PTTL", "long")); err != nil || ttl > 100_000-200+50 || ttl < 100_000-elapsed-50 {
		t.Errorf("%d ms left of 100 s after %d ms, %v", ttl, elapsed, err)
	}
}

// TTLs cost little even with many keys. With miniredis's ClockTTL this
// takes longer than the test's patience.
func TestTTLOfManyKeys(t *testing.T) {
	c := dial(t, start(t))
	began := time.Now()
	const keys = 20000
	for n := range keys {
		c.Send("HSET", n, "topic", "t", "body", "b")
	}
	c.Send("SET", "short", 1, "PX", 1)
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	for range keys + 1 {
		if _, err := c.Receive(); err != nil {
			t.Fatal(err)
		}
		if time.Since(began) > patience {
			t.Fatalf("%d keys take more than %v", keys, patience)
		}
	}
	for do(t, c, "GET", "short") != nil {
		if time.Since(began) > patience {
			t.Fatal("the key never expires")
		}
	}
}

func TestClock(t *testing.T) {
	c := dial(t, start(t))
	before := time.Now().Truncate(time.Microsecond)
	parts, err := redis.Int64s(c.Do("TIME"))
	if err != nil {
		t.Fatal(err)
	}
	inScript, err := redis.Int64s(c.Do("EVAL", "return redis.call('TIME')", 0))
	if err != nil {
		t.Fatal(err)
	}
	first, second := time.Unix(parts[0], parts[1]*1000), time.Unix(inScript[0], inScript[1]*1000)
	if first.Before(before) || second.Before(first) || time.Now().Before(second) {
		t.Errorf("%v, TIME %v, in a script %v, %v", before, first, second, time.Now())
	}
}

// A client that waits without taking, as Delayer's does, is woken by a push.
func TestBlockingMove(t *testing.T) {
	s := start(t)
	waiter, pusher := dial(t, s), dial(t, s)
	waiter.Send("BLMOVE", "q", "q", "RIGHT", "RIGHT", 0)
	if err := waiter.Flush(); err != nil {
		t.Fatal(err)
	}
	do(t, pusher, "LPUSH", "q", "a", "b")
	if first, err := redis.String(redis.ReceiveWithTimeout(waiter, patience)); first != "a" || err != nil {
		t.Errorf("%q, %v", first, err)
	}
	if all, err := redis.Strings(pusher.Do("LRANGE", "q", 0, -1)); strings.Join(all, " ") != "b a" || err != nil {
		t.Errorf("%q, %v", all, err)
	}
}

// Close does not wait for those who wait.
func TestCloseWithWaitingClient(t *testing.T) {
	s, err := devredis.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	waiter := dial(t, s)
	waiter.Send("BLMOVE", "q", "q", "RIGHT", "RIGHT", 0)
	waiter.Flush()
	do(t, dial(t, s), "PING")
	closed := make(chan struct{})
	go func() { s.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Fatal("Close hangs")
	}
	if _, err := redis.ReceiveWithTimeout(waiter, patience); err == nil {
		t.Error("the waiting client got an answer")
	}
}

func TestUsers(t *testing.T) {
	s := start(t, devredis.User{Password: "right"}, devredis.User{Name: "delayer", Password: "secret"})
	if _, err := dial(t, s).Do("GET", "key"); err == nil || !strings.HasPrefix(err.Error(), "NOAUTH") {
		t.Errorf("without a password: %v", err)
	}
	do(t, dial(t, s, redis.DialPassword("right")), "GET", "key")
	do(t, dial(t, s, redis.DialUsername("delayer"), redis.DialPassword("secret")), "GET", "key")
	_, err := redis.Dial("tcp", s.Addr, redis.DialPassword("secret"))
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
	s := start(t)
	do(t, dial(t, s, redis.DialDatabase(3)), "SET", "key", 1)
	if _, err := redis.String(dial(t, s).Do("GET", "key")); !errors.Is(err, redis.ErrNil) {
		t.Errorf("database 0: %v", err)
	}
	if value, err := redis.String(dial(t, s, redis.DialDatabase(3)).Do("GET", "key")); value != "1" || err != nil {
		t.Errorf("database 3: %q, %v", value, err)
	}
}
