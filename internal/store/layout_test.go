package store

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

// partitioned are n partitions on the backend's Redis.
func (b *backend) partitioned(n int) Partitions { return NewPartitions(b.Pool(), DefaultPrefix, n) }

const layoutKey = "delayer:{0}:partitions"

func (b *backend) layoutKept() string {
	return strings.Join(b.Strings("HMGET", layoutKey, "partitions", "before"), " ")
}

// Who comes with another number of partitions is refused, whatever he asks first, and nothing is written.
func TestLayout(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *backend) {
		ctx := t.Context()
		check(t, b.partitioned(16)[7].Ping(ctx))
		if kept := b.layoutKept(); kept != "16 " {
			t.Errorf("Redis has kept %q", kept)
		}
		before := b.Strings("KEYS", "*")
		for name, call := range map[string]func(*Store) error{
			"a script": func(s *Store) error {
				_, err := s.Push([]Delayed{{Job: Job{"a", "t", "b"}, Terms: Terms{Lifetime: time.Hour, Policy: Replace}}}).Do(ctx)
				return err
			},
			"a command": func(s *Store) error { return s.Ping(ctx) },
			"a look":    func(s *Store) error { _, _, err := s.look(t, LookAt{Topics: []string{"t"}}); return err },
			"waiters":   func(s *Store) error { _, err := s.Waiters(ctx, []string{"t"}); return err },
		} {
			for _, n := range []int{2, 17} {
				err := call(b.partitioned(n)[n-1])
				if wrong := new(LayoutError); !errors.As(err, &wrong) || wrong.Own != n || wrong.Kept.Partitions != 16 || !Refused(err) {
					t.Errorf("%s with %d partitions: %v", name, n, err)
				}
			}
		}
		if after := b.Strings("KEYS", "*"); len(after) != len(before) {
			t.Errorf("Redis has %q, want %q", after, before)
		}
	})
}

// CheckLayout is how a program with one partition learns that there are several.
func TestCheckLayout(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *backend) {
		for _, c := range []struct {
			kept    string // fields of the hash
			own     int
			refused string
		}{
			{"", 1, ""},
			{"partitions 1", 1, ""},
			{"partitions 16", 1, "partitions is 1 here, but 16 in Redis (delayer:{0}:partitions): want the same number in all programs"},
			{"partitions 16 before 1", 1, ""},
			{"partitions 16 before 1", 16, ""},
			{"partitions 16 before 1", 4, "partitions is 4 here, but 16 in Redis (delayer:{0}:partitions): want the same number in all programs"},
			{"partitions 4 before 16", 16, ""},
			{"", 16, ""},
		} {
			b.Do("DEL", layoutKey)
			if c.kept != "" {
				b.Do("HSET", appendAll([]any{layoutKey}, strings.Fields(c.kept))...)
			}
			was := b.layoutKept()
			err := b.partitioned(c.own).CheckLayout(t.Context())
			if got := ""; err != nil {
				if got = err.Error(); got != c.refused || !Refused(err) {
					t.Errorf("%d partitions where Redis has kept %q: %q, want %q", c.own, c.kept, got, c.refused)
				}
			} else if c.refused != "" {
				t.Errorf("%d partitions where Redis has kept %q: no error", c.own, c.kept)
			}
			if kept := b.layoutKept(); c.own == 1 && kept != was {
				t.Errorf("a program with one partition has made %q of %q", kept, was)
			}
		}
		b.Do("SET", layoutKey, "text")
		for _, n := range []int{1, 2} {
			if err := b.partitioned(n).CheckLayout(t.Context()); err == nil || !b.Mini && KindOf(err) != WrongType {
				t.Errorf("with a broken key: %v", err)
			}
		}
	})
}

// The question is asked once, and again only if it failed; with one partition it never is.
func TestLayoutAskedOnce(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t)
	asked := func() int { return b.AllCalls()["hmget"] }
	one, several := b.partitioned(1), b.partitioned(3)
	check(t, one[0].Ping(t.Context()))
	if n := asked(); n != 0 {
		t.Errorf("with one partition Redis was asked %d times", n)
	}

	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := several[1].Ping(over); !errors.Is(err, context.Canceled) {
		t.Errorf("with a ctx that is over: %v", err)
	}
	b.Do("SET", layoutKey, "text")
	if err := several[1].Ping(t.Context()); KindOf(err) != WrongType {
		t.Errorf("with a broken key: %v", err)
	}
	b.Do("DEL", layoutKey)
	b.Do("CONFIG", "RESETSTAT")
	var calls sync.WaitGroup
	for i := range 30 {
		calls.Go(func() { check(t, several[i%3].Ping(t.Context())) })
	}
	calls.Wait()
	if n := asked(); n != 1 {
		t.Errorf("30 calls at a time have asked %d times", n)
	}
}

// Of two who come first with different numbers one is refused.
func TestLayoutRace(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t)
	for range 20 {
		b.Do("FLUSHALL")
		var errs [2]error
		var calls sync.WaitGroup
		for i := range errs {
			p := b.partitioned(2 + i)
			calls.Go(func() { errs[i] = p[0].Ping(t.Context()) })
		}
		calls.Wait()
		if Refused(errs[0]) == Refused(errs[1]) || errs[0] != nil && errs[1] != nil {
			t.Fatalf("with 2 partitions: %v; with 3: %v", errs[0], errs[1])
		}
	}
}
