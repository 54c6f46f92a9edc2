package client_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mix-basic/delayer/client"
)

func TestPop(t *testing.T) {
	f := start(t)
	old := func(id, topic string) client.Message { return client.Message{ID: id, Topic: topic, Body: "old"} }
	w, b := waiting("w", "t"), buckets{"w": "t old"}
	for _, tt := range []struct {
		name    string
		before  []string
		want    client.Message
		wantErr error
		after   state
		expired []string
	}{
		{"the first of its queue", all(ready("a", "t"), ready("b", "t")), old("a", "t"), nil, state{Ready: queues{"t": {"b"}}, Buckets: buckets{"b": "t old"}}, nil},
		{"no queue", nil, client.Message{}, client.ErrEmpty, state{}, nil},
		{"a waiting job stays", w, client.Message{}, client.ErrEmpty, state{Pool: []string{"w"}, Buckets: b}, nil},
		{"a due job stays until it is moved", append(bucket("w", "t"), "ZADD delayer:job_pool in-1 w"), client.Message{}, client.ErrEmpty, state{Pool: []string{"w"}, Buckets: b}, nil},
		{"another topic's job stays", ready("a", "u"), client.Message{}, client.ErrEmpty, state{Ready: queues{"u": {"a"}}, Buckets: buckets{"a": "u old"}}, nil},
		{"ghosts are passed over", all(entry("g", "t"), entry("h", "t"), ready("a", "t")), old("a", "t"), nil, state{}, []string{"g", "h"}},
		{"ghosts alone", all(entry("g", "t"), entry("h", "t")), client.Message{}, client.ErrEmpty, state{}, []string{"g", "h"}},
		{"a bucket without a topic is a ghost", append(entry("g", "t"), "HSET delayer:job_bucket:g body old"), client.Message{}, client.ErrEmpty, state{Buckets: buckets{"g": " old"}}, []string{"g"}},
		{"a bucket of the wrong type is a ghost", append(entry("g", "t"), "SET delayer:job_bucket:g text"), client.Message{}, client.ErrEmpty, state{Other: buckets{"delayer:job_bucket:g": "string"}}, []string{"g"}},
		{"an entry of a postponed job is dropped", all(w, entry("w", "t"), ready("a", "t")), old("a", "t"), nil, state{Pool: []string{"w"}, Buckets: b}, nil},
		{"an ID in its queue twice", append(ready("a", "t"), entry("a", "t")...), old("a", "t"), nil, state{Ready: queues{"t": {"a"}}}, nil},
		{"a job of another topic is passed on", all(bucket("a", "u"), entry("a", "t")), client.Message{}, client.ErrEmpty, state{Ready: queues{"u": {"a"}}, Buckets: buckets{"a": "u old"}}, nil},
		{"the pool is broken", append(ready("a", "t"), "SET delayer:job_pool text"), old("a", "t"), nil, state{Other: buckets{"delayer:job_pool": "string"}}, nil},
	} {
		// Both ways of the code: a context that can end, and one that can't.
		for way, ctx := range map[string]context.Context{"background": context.Background(), "cancellable": t.Context()} {
			t.Run(tt.name+"/"+way, func(t *testing.T) {
				f := f.with(t)
				f.seed(tt.before...)
				var expired []string
				c := f.open(client.WithStale(func(ids []string) { expired = append(expired, ids...) }))
				m, err := c.Pop(ctx, "t")
				if m != tt.want || !errors.Is(err, tt.wantErr) {
					t.Errorf("Pop = %v, %v, want %v, %v", m, err, tt.want, tt.wantErr)
				}
				f.expect(tt.after)
				if !slices.Equal(expired, tt.expired) || c.Counters().Stale != int64(len(tt.expired)) {
					t.Errorf("expired %q, %d counted, want %q", expired, c.Counters().Stale, tt.expired)
				}
			})
		}
	}
}

// However many ghosts stand before a job, it comes, and they are counted.
func TestPopBehindManyGhosts(t *testing.T) {
	f := start(t)
	var mu sync.Mutex
	told := map[string]bool{}
	c := f.open(client.WithStale(func(ids []string) {
		mu.Lock()
		defer mu.Unlock()
		for _, id := range ids {
			told[id] = true
		}
	}))
	for name, popped := range map[string]pop{
		"Pop":             func() (client.Message, error) { return c.Pop(t.Context(), "t") },
		"BPop":            func() (client.Message, error) { return c.BPop(t.Context(), hangBound, "t") },
		"BPop of several": func() (client.Message, error) { return c.BPop(t.Context(), hangBound, "u", "t") },
		"PopBatch": func() (client.Message, error) {
			batch, err := c.PopBatch(t.Context(), "t", 2)
			return append(batch, client.Message{})[0], err
		},
	} {
		before := c.Counters().Stale
		clear(told)
		f.do("EVAL", "for i = 1, 2500 do redis.call('LPUSH', KEYS[1], i) end", 1, "delayer:ready_queue:t")
		f.push("a", "t")
		m, err := popped()
		if err != nil || m.ID != "a" {
			t.Errorf("%s = %v, %v, want the job behind the ghosts", name, m, err)
		}
		if n := c.Counters().Stale - before; n != 2500 || len(told) != 2500 {
			t.Errorf("%s counted %d ghosts and told of %d, want 2500", name, n, len(told))
		}
		f.expect(state{})
	}
}

// WithStale's function may panic, or end its goroutine: whoever pops gets his job, the topic is
// served as before, and the log has the panic.
func TestWithStaleThatFails(t *testing.T) {
	for name, fail := range map[string]func([]string){
		"panics":             func([]string) { panic("at the disco") },
		"ends its goroutine": func([]string) { runtime.Goexit() },
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			var log lockedLog
			c := f.open(client.WithStale(fail), client.WithLogger(log.logger()))
			for n, popped := range []pop{
				func() (client.Message, error) { return c.Pop(t.Context(), "t") },
				func() (client.Message, error) { return c.BPop(t.Context(), 0, "t") },
				func() (client.Message, error) { return c.BPop(t.Context(), 0, "u", "t") },
				func() (client.Message, error) {
					batch, err := c.PopBatch(t.Context(), "t", 1)
					return append(batch, client.Message{})[0], err
				},
			} {
				f.do("LPUSH", "delayer:ready_queue:t", "gone")
				f.push(fmt.Sprint(n), "t")
				expectJob(t, waitFor(t, background(popped)), fmt.Sprint(n))
				if stale := c.Counters().Stale; stale != int64(n+1) {
					t.Errorf("%d are counted, want %d", stale, n+1)
				}
			}
			lines := log.lines()
			if want := map[string]int{"panics": 4}[name]; len(lines) != want {
				t.Errorf("%d lines in the log, want %d: %q", len(lines), want, lines)
			}
			for _, line := range lines {
				if !strings.Contains(line, "WithStale") || !strings.Contains(line, "at the disco") || !strings.Contains(line, "pop_test.go") {
					t.Errorf("the log does not say what panicked, why and where: %q", line)
				}
			}
			f.expect(state{})
		})
	}
}

// A queue of the wrong type is an error at once that names it, but does not keep the other topics' jobs back.
func TestPopWrongType(t *testing.T) {
	f := start(t)
	f.seed("SET delayer:ready_queue:broken text")
	f.push("a", "t")
	for name, popped := range map[string]pop{
		"Pop":         func() (client.Message, error) { return f.Pop(t.Context(), "broken") },
		"BPop":        func() (client.Message, error) { return f.BPop(t.Context(), 0, "broken") },
		"BPop of two": func() (client.Message, error) { return f.BPop(t.Context(), 0, "broken", "empty") },
	} {
		r := waitFor(t, background(popped))
		expectText(t, name, r.err, "WRONGTYPE", "delayer:ready_queue:broken")
	}
	if m, err := f.BPop(t.Context(), 0, "broken", "t"); err != nil || m.ID != "a" {
		t.Errorf("BPop = %v, %v, want the job of the other topic", m, err)
	}
	_, err := f.Push(t.Context(), client.Message{ID: "b", Topic: "broken", Body: "body"}, 0)
	expectText(t, "Push", err, "WRONGTYPE", "delayer:ready_queue:broken")
	f.expect(state{Other: buckets{"delayer:ready_queue:broken": "string"}})
}

// A consumer whose permissions do not suffice gets an error and loses nothing.
func TestPopWithoutPermission(t *testing.T) {
	f := start(t)
	f.seed(all(ready("a", "t"), ready("b", "t"))...)
	before := f.state()
	for _, missing := range []string{"lrange", "hmget", "zmscore", "rpop", "del", "evalsha"} {
		f.do("ACL", "SETUSER", missing, "on", ">secret", "~*", "&*", "+@all", "-"+missing)
		c := client.OpenPool(client.PoolOptions{Addr: f.redis.Addr, Username: missing, Password: "secret"})
		_, err := c.Pop(t.Context(), "t")
		c.Close()
		if err == nil || errors.Is(err, client.ErrEmpty) || errors.Is(err, client.ErrLost) || c.Counters().Lost != 0 {
			t.Errorf("without %s: error %v, %d lost, want Redis's error, and nothing lost", missing, err, c.Counters().Lost)
		}
		f.expect(before)
	}
}
