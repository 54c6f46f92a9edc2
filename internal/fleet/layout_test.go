package fleet

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
	"github.com/mix-basic/delayer/internal/store"
)

// partitioned returns n partitions on the backend's Redis.
func (b *backend) partitioned(n int) *Fleet {
	return Layout{Partitions: n}.Open(b.Pool(), store.DefaultPrefix)
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

// A program with another number of partitions is refused at its first call, whatever that is, and nothing is written.
func TestLayout(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *backend) {
		ctx := t.Context()
		check(t, b.partitioned(16).Stores[7].Ping(ctx))
		if kept := b.layoutKept(); kept != "partitions 16" {
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
				_, err := store.PollAll(ctx, store.Poll{Store: s, Topics: []string{"t"}})
				return err
			},
			"waiters": func(s *store.Store) error { _, err := s.Waiters(ctx, []store.WaitedFor{{Topic: "t"}}); return err },
		} {
			for _, n := range []int{1, 2, 17} {
				err := call(b.partitioned(n).Stores[n-1])
				if wrong := new(LayoutError); !errors.As(err, &wrong) || wrong.Own.Partitions != n || wrong.Kept.Partitions != 16 || !store.Refused(err) {
					t.Errorf("%s with %d partitions: %v", name, n, err)
				}
			}
		}
		if after := b.Strings("KEYS", "*"); len(after) != len(before) {
			t.Errorf("Redis has %q, want %q", after, before)
		}
	})
}

// Each layout is admitted or refused, depending on the layout that Redis has stored.
func TestLayouts(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *backend) {
		for _, c := range []struct {
			kept    string // fields of the hash
			own     Layout
			refused string
			then    string // stored afterwards, if different
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
			// The migration is done, but not every program knows that.
			{"partitions 16", Layout{16, 1}, "", ""},
			{"partitions 16 before 1", Layout{16, 0}, "previous_partitions is missing: jobs may be left in 1 partition of the previous layout (delayer:{0}:partitions); want previous_partitions = 1 here until delayer migrate says that there are none", ""},
			{"partitions 16 before 1", Layout{4, 0}, "here it is 4 partitions, but in Redis 16 partitions, previously 1 (delayer:{0}:partitions): want the same in all programs, and another number only when delayer migrate is done with the last one", ""},
			{"partitions 16 before 1", Layout{4, 16}, "here it is 4 partitions, previously 16, but in Redis 16 partitions, previously 1 (delayer:{0}:partitions): want the same in all programs, and another number only when delayer migrate is done with the last one", ""},
			{"partitions 16 before 1", Layout{1, 16}, "here it is 1 partition, previously 16, but in Redis 16 partitions, previously 1 (delayer:{0}:partitions): want the same in all programs, and another number only when delayer migrate is done with the last one", ""},
			{"partitions 16", Layout{4, 8}, "here it is 4 partitions, previously 8, but in Redis 16 partitions (delayer:{0}:partitions): want the same in all programs, and another number only when delayer migrate is done with the last one", ""},
		} {
			b.Do("DEL", layoutKey)
			if c.kept != "" {
				b.Do("HSET", redis.Args{layoutKey}.AddFlat(strings.Fields(c.kept))...)
			}
			err := c.own.Open(b.Pool(), store.DefaultPrefix).Stores[0].Ping(t.Context())
			if got := ""; err != nil {
				if got = err.Error(); got != c.refused || !store.Refused(err) {
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
	asked := func() int { return b.AllCalls()["hmget"] + b.AllCalls()["exists"] }
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
	b.SetUser("~* &* +@all -exists")
	p := Layout{Partitions: 1}.Open(b.UserPool(), store.DefaultPrefix)
	b.Do("CONFIG", "RESETSTAT")
	for range 3 {
		check(t, p.Stores[0].Ping(t.Context()))
	}
	stats, err := redis.String(b.Do("INFO", "commandstats"), nil)
	if check(t, err); !regexp.MustCompile(`(?m)^cmdstat_exists:.*rejected_calls=1,`).MatchString(stats) {
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
// find them. With the previous layout it is admitted.
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
			if wrong := new(LayoutError); !errors.As(err, &wrong) || wrong.Kept != (Layout{1, 0}) || b.layoutKept() != "" {
				t.Errorf("with a %s job: %v, and Redis has kept %q", name, err, b.layoutKept())
			}
			check(t, Layout{16, 1}.Open(b.Pool(), store.DefaultPrefix).Stores[3].Ping(ctx))
		}
	})
}

// Each job has an old partition and a current one.
func TestLayoutPlaces(t *testing.T) {
	t.Parallel()
	for _, l := range []Layout{{16, 0}, {16, 1}, {1, 16}, {4, 16}, {16, 4}, {5, 3}, {3, 5}} {
		p := l.Open(new(redis.Pool), "p:")
		names := map[string]bool{}
		for _, s := range p.Stores {
			names[s.Keys().Prefix()] = true
		}
		for i := range 200 {
			id := fmt.Sprint("job ", i)
			want := func(n int) string {
				if n == 1 {
					return "p:"
				}
				return fmt.Sprintf("p:{%d}:", store.PartitionOf(id, n))
			}
			now, before := p.Of(id).Keys().Prefix(), ""
			if s := p.OldOf(id); s != nil {
				before = s.Keys().Prefix()
			}
			wantBefore := ""
			if l.Previous > 0 && want(l.Previous) != now {
				wantBefore = want(l.Previous)
			}
			if now != want(l.Partitions) || before != wantBefore {
				t.Fatalf("%v: %s is of %q, before %q; want %q, %q", l, id, now, before, want(l.Partitions), wantBefore)
			}
		}
		if all := max(l.Partitions, l.Previous); len(names) != len(p.Stores) || len(p.Stores) != all && (min(l.Partitions, l.Previous) != 1 || len(p.Stores) != all+1) {
			t.Errorf("%v has %d partitions with %d names", l, len(p.Stores), len(names))
		}
	}
}
