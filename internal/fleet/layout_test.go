package fleet

import (
	"context"
	"errors"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
)

// partitioned returns n partitions on the backend's Redis.
func (b *backend) partitioned(n int) *Fleet {
	return open(b.Pool(), n)
}

const layoutKey = "delayer:{0}:partitions"

func (b *backend) layoutKept() string { return b.Strings("HMGET", layoutKey, "partitions")[0] }

// A program with another number of partitions is refused at its first call, whatever that is, and nothing is written.
func TestLayout(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *backend) {
		ctx := t.Context()
		check(t, b.partitioned(16).Stores[7].Ping(ctx))
		if kept := b.layoutKept(); kept != "16" {
			t.Errorf("Redis has kept %q", kept)
		}
		before := b.Strings("KEYS", "*")
		for name, call := range map[string]func(*store.Store) error{
			"a script": func(s *store.Store) error {
				_, err := s.Push([]store.Delayed{delayed("a", "t", 0)}).Do(ctx)
				return err
			},
			"a command": func(s *store.Store) error { return s.Ping(ctx) },
			"a look": func(s *store.Store) error {
				_, err := store.CheckAll(ctx, store.Check{Store: s, Topics: []string{"t"}})
				return err
			},
			"waiters": func(s *store.Store) error { _, err := s.Waiters(ctx, []store.WaitedFor{{Topic: "t"}}); return err },
		} {
			for _, n := range []int{1, 2, 17} {
				err := call(b.partitioned(n).Stores[n-1])
				if wrong := new(LayoutError); !errors.As(err, &wrong) || wrong.Own != n || wrong.Kept != 16 || !store.Refused(err) {
					t.Errorf("%s with %d partitions: %v", name, n, err)
				}
			}
		}
		if after := b.Strings("KEYS", "*"); len(after) != len(before) {
			t.Errorf("Redis has %q, want %q", after, before)
		}
	})
}

// A program is admitted or refused, depending on the number that Redis has stored. The first one with several partitions stores its own.
func TestLayouts(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *backend) {
		for _, c := range []struct {
			kept    string
			own     int
			refused string
			then    string // stored afterwards
		}{
			{"", 1, "", ""},
			{"1", 1, "", "1"},
			{"16", 1, "partitions is 1 here, but 16 in Redis (delayer:{0}:partitions): want the same number in all programs", "16"},
			{"", 16, "", "16"},
			{"16", 16, "", "16"},
			{"16", 4, "partitions is 4 here, but 16 in Redis (delayer:{0}:partitions): want the same number in all programs", "16"},
		} {
			b.Do("DEL", layoutKey)
			if c.kept != "" {
				b.Do("HSET", layoutKey, "partitions", c.kept)
			}
			err := b.partitioned(c.own).Stores[0].Ping(t.Context())
			if got := ""; err != nil {
				if got = err.Error(); got != c.refused || !store.Refused(err) {
					t.Errorf("%d where Redis has %q: %q, want %q", c.own, c.kept, got, c.refused)
				}
			} else if c.refused != "" {
				t.Errorf("%d where Redis has %q: no error", c.own, c.kept)
			}
			if kept := b.layoutKept(); kept != c.then {
				t.Errorf("%d has made %q of %q, want %q", c.own, kept, c.kept, c.then)
			}
		}
		b.Do("SET", layoutKey, "text")
		for _, n := range []int{1, 2} {
			if err := b.partitioned(n).Stores[n-1].Ping(t.Context()); err == nil || !b.Mini && store.KindOf(err) != store.WrongType {
				t.Errorf("with a broken key: %v", err)
			}
		}
	})
}

// The layout is checked once, and again only if that failed.
func TestLayoutAskedOnce(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t)
	asked := func() int { return b.AllCalls()["hget"] }
	one, several := b.partitioned(1), b.partitioned(3)
	for range 3 {
		check(t, one.Stores[0].Ping(t.Context()))
	}
	if n := asked(); n != 1 {
		t.Errorf("with one partition Redis was asked %d times", n)
	}

	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := several.Stores[1].Ping(over); !errors.Is(err, context.Canceled) {
		t.Errorf("with a ctx that is over: %v", err)
	}
	b.Do("SET", layoutKey, "text")
	if err := several.Stores[1].Ping(t.Context()); store.KindOf(err) != store.WrongType {
		t.Errorf("with a broken key: %v", err)
	}
	b.Do("DEL", layoutKey)
	b.Do("CONFIG", "RESETSTAT")
	var calls sync.WaitGroup
	for i := range 30 {
		calls.Go(func() { check(t, several.Stores[i%3].Ping(t.Context())) })
	}
	calls.Wait()
	if n := asked(); n != 2 { // one to read the stored layout, one to check whether this one is admitted
		t.Errorf("30 calls at a time have asked %d times", n)
	}
	check(t, b.partitioned(3).Stores[2].Ping(t.Context()))
	if n := asked(); n != 3 {
		t.Errorf("who finds what it has asks %d times", n-2)
	}
}

// A user with one partition and no permission to read the layout is admitted, and Redis is asked only once.
func TestLayoutWithoutPermission(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t)
	b.SetUser("~* &* +@all -hget")
	p := open(b.UserPool(), 1)
	b.Do("CONFIG", "RESETSTAT")
	for range 3 {
		check(t, p.Stores[0].Ping(t.Context()))
	}
	stats, err := redis.String(b.Do("INFO", "commandstats"), nil)
	if check(t, err); !regexp.MustCompile(`(?m)^cmdstat_hget:.*rejected_calls=1,`).MatchString(stats) {
		t.Errorf("Redis was asked more often than once, or not at all:\n%s", stats)
	}
}

// If two programs start first with different numbers, one of them is refused.
func TestLayoutRace(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t)
	for range 20 {
		b.Do("FLUSHALL")
		var errs [2]error
		var calls sync.WaitGroup
		for i := range errs {
			p := b.partitioned(2 + i)
			calls.Go(func() { errs[i] = p.Stores[0].Ping(t.Context()) })
		}
		calls.Wait()
		if store.Refused(errs[0]) == store.Refused(errs[1]) || errs[0] != nil && errs[1] != nil {
			t.Fatalf("with 2 partitions: %v; with 3: %v", errs[0], errs[1])
		}
	}
}

// A program with several partitions is refused if a single partition has jobs or dead letters, because it would not
// find them.
func TestLayoutOfJobs(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *backend) {
		ctx, one := t.Context(), b.partitioned(1).Stores[0]
		for name, make := range map[string]func(){
			"waiting": func() {
				push(t, b.Store, "a", "waits", time.Hour)
			},
			"ready": func() { push(t, b.Store, "a", "ready", 0) },
			"dead": func() {
				b.Do("HSET", one.Keys().DeadLetter("a"), "topic", "t", "body", "b")
				b.Do("ZADD", one.Keys().DeadLetters("t"), 1000, "a")
				b.Do("ZADD", one.Keys().DeadTopics(), 1000, "t")
			},
		} {
			b.Do("FLUSHALL")
			make()
			err := b.partitioned(16).Stores[3].Ping(ctx)
			if wrong := new(LayoutError); !errors.As(err, &wrong) || wrong.Kept != 1 || b.layoutKept() != "" {
				t.Errorf("with a %s job: %v, and Redis has kept %q", name, err, b.layoutKept())
			}
		}
	})
}
