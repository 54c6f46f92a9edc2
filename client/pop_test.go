package client_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// A job is taken even behind many stale entries, and the hooks of several WithHooks are told of these.
func TestPopBehindManyStaleEntries(t *testing.T) {
	t.Parallel()
	f := start(t, undivided)
	var mu sync.Mutex
	told := map[string]bool{}
	var counted counts
	c := f.open(counted.option(), client.WithHooks(client.Hooks{Stale: func(ids []string) {
		mu.Lock()
		defer mu.Unlock()
		for _, id := range ids {
			told[id] = true
		}
	}}))
	for name, popped := range pops(c) {
		before := counted.stale.Load()
		clear(told)
		f.Do("EVAL", "for i = 1, 2500 do redis.call('LPUSH', KEYS[1], i) end", 1, "delayer:ready_queue:t")
		f.push("a", "t")
		expectJob(t, background(popped), "a")
		if n := counted.stale.Load() - before; n != 2500 || len(told) != 2500 {
			t.Errorf("%s counted %d ghosts and told of %d, want 2500", name, n, len(told))
		}
		f.Expect(state{})
	}
	var log redistest.Log
	unhooked := f.open(client.WithLogger(log.Logger()))
	f.Do("LPUSH", "delayer:ready_queue:t", "gone")
	f.push("b", "t")
	expectJob(t, background(pops(unhooked)["Pop"]), "b")
	log.Expect(t, 0)
}

// pops returns all ways to take a job of topic t for good.
func pops(c *client.Client) map[string]func() (client.Message, error) {
	ctx := context.Background()
	return map[string]func() (client.Message, error){
		"Pop":             func() (client.Message, error) { return c.Pop(ctx, "t") },
		"BPop":            func() (client.Message, error) { return c.BPop(ctx, hangBound, "t") },
		"BPop of several": func() (client.Message, error) { return c.BPop(ctx, hangBound, "u", "t") },
		"Fetch that pops": func() (client.Message, error) {
			list, err := c.Fetch(ctx, clienttest.Popped("t", 1))
			return messageOf(append(list, nil)[0], err)
		},
		"Reserve": func() (client.Message, error) {
			d, err := c.Reserve(ctx, time.Minute, "t")
			if err == nil {
				err = d.Ack(ctx)
			}
			return messageOf(d, err)
		},
	}
}

// If Hooks.Stale panics or ends its goroutine, the caller still gets its job and the topic is served as before. The log
// has the value and the stack of the panic.
func TestStaleHookThatPanics(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func([]string){
		"panics":             func([]string) { panic("at the disco") },
		"ends its goroutine": func([]string) { runtime.Goexit() },
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, undivided)
			var log redistest.Log
			var counted counts
			c := f.open(client.WithHooks(client.Hooks{Stale: fail}), counted.option(), client.WithLogger(log.Logger()))
			all := pops(c)
			for id, popped := range all {
				f.Do("LPUSH", "delayer:ready_queue:t", "gone")
				f.push(id, "t")
				expectJob(t, background(popped), id)
			}
			if stale := counted.stale.Load(); stale != int64(len(all)) {
				t.Errorf("%d are counted, want %d", stale, len(all))
			}
			want := map[string]int{"panics": len(all)}[name]
			log.Expect(t, want)
			log.Expect(t, want, "a hook has panicked", "at the disco", "pop_test.go")
			f.Expect(state{})
		})
	}
}

// A ready queue of the wrong type is an error at once. The error names the queue, and other topics' jobs are not
// delayed.
func TestPopWrongType(t *testing.T) {
	f := start(t, undivided)
	f.seed("SET delayer:ready_queue:broken text")
	f.push("a", "t")
	wrong := []string{"WRONGTYPE", "ready_queue:broken"}
	expectText(t, "Pop", arrival(t, failing(func() error { return errOf(f.Pop(t.Context(), "broken")) })).err, wrong...)
	expectText(t, "BPop", arrival(t, bpop(t.Context(), f.Client, 0, "broken")).err, wrong...)
	expectText(t, "BPop of two", arrival(t, bpop(t.Context(), f.Client, 0, "broken", "empty")).err, wrong...)
	expectJob(t, bpop(t.Context(), f.Client, 0, "broken", "t"), "a")
	expectText(t, "Push", errOf(f.Push(t.Context(), client.Message{ID: "b", Topic: "broken", Body: "body"}, 0)), wrong...)
	f.Expect(state{Other: buckets{"delayer:ready_queue:broken": "string"}})
}
