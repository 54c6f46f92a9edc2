package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// partitioned are n partitions on the backend's Redis.
func (b *backend) partitioned(n int) Partitions {
	return Layout{Partitions: n}.Open(b.Pool(), DefaultPrefix)
}

const layoutKey = "delayer:{0}:partitions"

func (b *backend) layoutKept() string {
	kept := b.Strings("HMGET", layoutKey, "partitions", "before")
	text := ""
	if kept[0] != "" {
		text = "partitions " + kept[0]
	}
	if kept[1] != "" {
		text += " before " + kept[1]
	}
	return text
}

// Who comes with another number of partitions is refused, whatever he asks first, and nothing is written.
func TestLayout(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *backend) {
		ctx := t.Context()
		check(t, b.partitioned(16)[7].Ping(ctx))
		if kept := b.layoutKept(); kept != "partitions 16" {
			t.Errorf("Redis has kept %q", kept)
		}
		before := b.Strings("KEYS", "*")
		for name, call := range map[string]func(*Store) error{
			"a script": func(s *Store) error {
				_, err := s.Push([]Delayed{{Job: Job{"a", "t", "b"}, Terms: Terms{Lifetime: time.Hour, Policy: Replace}}}).Do(ctx)
				return err
			},
			"a command": func(s *Store) error { return s.Ping(ctx) },
			"a look":    func(s *Store) error { _, err := s.look(t, LookAt{Topics: []string{"t"}}); return err },
			"waiters":   func(s *Store) error { _, err := s.Waiters(ctx, waitedFor("t")); return err },
		} {
			for _, n := range []int{1, 2, 17} {
				err := call(b.partitioned(n)[n-1])
				if wrong := new(LayoutError); !errors.As(err, &wrong) || wrong.Own.Partitions != n || wrong.Kept.Partitions != 16 || !Refused(err) {
					t.Errorf("%s with %d partitions: %v", name, n, err)
				}
			}
		}
		if after := b.Strings("KEYS", "*"); len(after) != len(before) {
			t.Errorf("Redis has %q, want %q", after, before)
		}
	})
}

// Each layout is let in, or refused, by what Redis has kept.
func TestLayouts(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *backend) {
		for _, c := range []struct {
			kept    string // fields of the hash
			own     Layout
			refused string
			then    string // Redis has kept, if it is something else
		}{
			{"", Layout{1, 0}, "", ""},
			{"partitions 1", Layout{1, 0}, "", ""},
			{"partitions 16", Layout{1, 0}, "partitions is 1 here, but 16 in Redis (delayer:{0}:partitions): want the same number in all programs", ""},
			{"partitions 16 before 1", Layout{1, 0}, "", ""},
			{"partitions 4 before 16", Layout{16, 0}, "", ""},
			{"", Layout{16, 0}, "", "partitions 16"},
			{"", Layout{16, 1}, "", "partitions 16 before 1"},
			{"partitions 16", Layout{16, 0}, "", ""},
			{"partitions 16 before 1", Layout{16, 1}, "", ""},
			{"partitions 16", Layout{4, 16}, "", "partitions 4 before 16"},
			{"partitions 16", Layout{1, 16}, "", "partitions 1 before 16"},
			{"partitions 1", Layout{4, 1}, "", "partitions 4 before 1"},
			// Nothing is left, and not everybody has been told.
			{"partitions 16", Layout{16, 1}, "", ""},
			{"partitions 16 before 1", Layout{16, 0}, "previous_partitions is missing: jobs may be left in the 1 partition of before (delayer:{0}:partitions); want previous_partitions = 1 here until delayer migrate says that there are none", ""},
			{"partitions 16 before 1", Layout{4, 0}, "here it is 4 partitions, but in Redis 16 partitions, 1 before (delayer:{0}:partitions): want the same in all programs, and another number only when delayer migrate is done with the last one", ""},
			{"partitions 16 before 1", Layout{4, 16}, "here it is 4 partitions, 16 before, but in Redis 16 partitions, 1 before (delayer:{0}:partitions): want the same in all programs, and another number only when delayer migrate is done with the last one", ""},
			{"partitions 16 before 1", Layout{1, 16}, "here it is 1 partition, 16 before, but in Redis 16 partitions, 1 before (delayer:{0}:partitions): want the same in all programs, and another number only when delayer migrate is done with the last one", ""},
			{"partitions 16", Layout{4, 8}, "here it is 4 partitions, 8 before, but in Redis 16 partitions (delayer:{0}:partitions): want the same in all programs, and another number only when delayer migrate is done with the last one", ""},
		} {
			b.Do("DEL", layoutKey)
			if c.kept != "" {
				b.Do("HSET", appendAll([]any{layoutKey}, strings.Fields(c.kept))...)
			}
			err := c.own.Open(b.Pool(), DefaultPrefix)[0].Ping(t.Context())
			if got := ""; err != nil {
				if got = err.Error(); got != c.refused || !Refused(err) {
					t.Errorf("%v where Redis has kept %q: %q, want %q", c.own, c.kept, got, c.refused)
				}
			} else if c.refused != "" {
				t.Errorf("%v where Redis has kept %q: no error", c.own, c.kept)
			}
			if kept, want := b.layoutKept(), cmp.Or(c.then, c.kept); kept != want {
				t.Errorf("%v has made %q of %q, want %q", c.own, kept, c.kept, want)
			}
		}
		b.Do("SET", layoutKey, "text")
		for _, n := range []int{1, 2} {
			if err := b.partitioned(n)[n-1].Ping(t.Context()); err == nil || !b.Mini && KindOf(err) != WrongType {
				t.Errorf("with a broken key: %v", err)
			}
		}
	})
}

// The question is asked once, and again only if it failed.
func TestLayoutAskedOnce(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t)
	asked := func() int { return b.AllCalls()["hmget"] + b.AllCalls()["exists"] }
	one, several := b.partitioned(1), b.partitioned(3)
	for range 3 {
		check(t, one[0].Ping(t.Context()))
	}
	if n := asked(); n != 1 {
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
	if n := asked(); n != 2 { // what is kept, and whether this may be
		t.Errorf("30 calls at a time have asked %d times", n)
	}
	check(t, b.partitioned(3)[2].Ping(t.Context()))
	if n := asked(); n != 3 {
		t.Errorf("who finds what it has asks %d times", n-2)
	}
}

// A user with one partition who may not know the layout has to know himself, and Redis is asked once only.
func TestLayoutWithoutPermission(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t)
	b.SetUser("~* &* +@all -exists")
	p := Layout{Partitions: 1}.Open(b.UserPool(), DefaultPrefix)
	b.Do("CONFIG", "RESETSTAT")
	for range 3 {
		check(t, p[0].Ping(t.Context()))
	}
	stats, err := redis.String(b.Do("INFO", "commandstats"), nil)
	if check(t, err); !regexp.MustCompile(`(?m)^cmdstat_exists:.*rejected_calls=1,`).MatchString(stats) {
		t.Errorf("Redis was asked more often than once, or not at all:\n%s", stats)
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

// Who has several partitions is not let in where a single one has jobs, be they dead: he would not find them. With the
// layout before he is.
func TestLayoutOfJobs(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *backend) {
		ctx, one := t.Context(), b.partitioned(1)[0]
		for name, make := range map[string]func(){
			"waiting": func() { check(t, b.push(ctx, Job{"a", "waits", "b"}, Due{After: time.Hour}, time.Hour, Replace)) },
			"ready":   func() { check(t, b.push(ctx, Job{"a", "ready", "b"}, Due{}, time.Hour, Replace)) },
			"dead": func() {
				b.Do("HSET", one.keys.DeadLetter("a"), "topic", "t", "body", "b")
				b.Do("ZADD", one.keys.DeadLetters("t"), 1000, "a")
				b.Do("ZADD", one.keys.DeadTopics(), 1000, "t")
			},
		} {
			b.Do("FLUSHALL")
			make()
			err := b.partitioned(16)[3].Ping(ctx)
			if wrong := new(LayoutError); !errors.As(err, &wrong) || wrong.Kept != (Layout{1, 0}) || b.layoutKept() != "" {
				t.Errorf("with a %s job: %v, and Redis has kept %q", name, err, b.layoutKept())
			}
			check(t, Layout{16, 1}.Open(b.Pool(), DefaultPrefix)[3].Ping(ctx))
		}
	})
}

// Each job has its partition of before and of now.
func TestLayoutPlaces(t *testing.T) {
	t.Parallel()
	for _, l := range []Layout{{16, 0}, {16, 1}, {1, 16}, {4, 16}, {16, 4}, {5, 3}, {3, 5}} {
		p := l.Open(new(redis.Pool), "p:")
		names := map[string]bool{}
		for _, s := range p {
			names[s.keys.prefix] = true
		}
		for i := range 200 {
			id := fmt.Sprint("job ", i)
			want := func(n int) string {
				if n == 1 {
					return "p:"
				}
				return fmt.Sprintf("p:{%d}:", PartitionOf(id, n))
			}
			now, before := p.Of(id).keys.prefix, ""
			if s := p.Before(id); s != nil {
				before = s.keys.prefix
			}
			wantBefore := ""
			if l.Before > 0 && want(l.Before) != now {
				wantBefore = want(l.Before)
			}
			if now != want(l.Partitions) || before != wantBefore {
				t.Fatalf("%v: %s is of %q, before %q; want %q, %q", l, id, now, before, want(l.Partitions), wantBefore)
			}
		}
		if all := max(l.Partitions, l.Before); len(names) != len(p) || len(p) != all && (min(l.Partitions, l.Before) != 1 || len(p) != all+1) {
			t.Errorf("%v has %d partitions with %d names", l, len(p), len(names))
		}
	}
}
