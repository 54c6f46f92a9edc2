package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// fill adds entries to a list like an original server, the first one to be delivered first.
func fill(r *redistest.Server, list, name string, entries int) {
	r.Do("EVAL", "for i = 1, ARGV[2] do redis.call('LPUSH', KEYS[1], string.format('%s%06d', ARGV[1], i)) end", 1, list, name, entries)
}

// expectFilled compares a list with what fill added: this number of entries of each name, one name after the other.
func expectFilled(t *testing.T, r *redistest.Server, list string, names string, entries ...int) {
	t.Helper()
	got := r.Strings("LRANGE", list, 0, -1)
	slices.Reverse(got)
	for i, name := range names {
		for n := range entries[i] {
			want := fmt.Sprintf("%c%06d", name, n+1)
			if len(got) == 0 || got[0] != want {
				t.Fatalf("%s goes on with %.1q, want %s", list, got[:min(len(got), 1)], want)
			}
			got = got[1:]
		}
	}
	if len(got) > 0 {
		t.Errorf("%s has %d entries more", list, len(got))
	}
}

// However many topics are paused, passes go through them page by page and report all. Jobs in their queues are parked, and pauses that
// are over end.
func TestManyPausedTopics(t *testing.T) {
	const topics, over = 2500, 300
	b, r := onRedis(t, alone)
	ctx := t.Context()
	for i := range topics {
		topic := fmt.Sprint("t", i)
		made(t, b.Throttle(topic, time.Hour))
		fill(r, "delayer:ready_queue:"+topic, "a", 1)
		if i < over {
			r.Do("HSET", "delayer:paused", topic, "1 2 0 0 ")
		}
	}
	all, err := b.Paused(ctx)
	if check(t, err); len(all) != topics-over || !slices.IsSortedFunc(all, func(a, b Pause) int { return strings.Compare(a.Topic, b.Topic) }) {
		t.Errorf("%d are told", len(all))
	}
	var ended []string
	at, steps := "0", 0
	for ; at != ""; steps++ {
		r.Do("CONFIG", "RESETSTAT")
		kept := made(t, b.KeepPaused(at))
		for _, command := range []string{"type", "lmove"} {
			if n := r.Calls(command); n > 2*pauseTopics {
				t.Errorf("step %d makes %d calls of %s", steps, n, command)
			}
		}
		ended, at = append(ended, kept.Ended...), kept.Next
	}
	if steps < topics/pauseTopics/2 || len(ended) != over {
		t.Errorf("in %d steps %d have ended, want %d", steps, len(ended), over)
	}
	for i := range topics {
		queue, other := "delayer:paused_queue:", "delayer:ready_queue:"
		if i < over {
			queue, other = other, queue
		}
		if topic := fmt.Sprint("t", i); r.Do("LLEN", queue+topic) != int64(1) || r.Do("EXISTS", other+topic) != int64(0) {
			t.Fatalf("the entry of %s is not where it belongs", topic)
		}
	}
}

// Jobs that other programs put into a paused topic's queue are parked in bounded steps and in order, by a server or in part by pushes.
func TestPausesMoveBoundedSteps(t *testing.T) {
	const aside, ready = 50_000, 200_000
	b, r := onRedis(t, alone)
	ctx := t.Context()
	queue, queueAside := "delayer:ready_queue:t", "delayer:paused_queue:t"
	fill(r, queue, "a", aside)
	b.pause(t, "t")
	fill(r, queue, "b", ready)
	r.Do("CONFIG", "RESETSTAT")
	check(t, b.push(ctx, Job{ID: "c000001", Topic: "t", Body: "body"}, Due{}, kept, Replace))
	b.pause(t, "t")
	if n := r.Calls("lmove"); n != 2*pauseEntries {
		t.Errorf("a push and a pause set %d entries aside", n)
	}
	steps := 0
	for at := "0"; at != ""; steps++ {
		r.Do("CONFIG", "RESETSTAT")
		kept := made(t, b.KeepPaused(at))
		if n := r.Calls("lmove"); n > pauseEntries || kept.Again != (kept.Next == "0") || kept.Paused != 1 {
			t.Fatalf("step %d moves %d entries: %+v", steps, n, kept)
		}
		at = kept.Next
	}
	if want := ready/pauseEntries - 1; steps != want {
		t.Errorf("%d steps, want %d", steps, want)
	}
	expectFilled(t, r, queueAside, "abc", aside, ready, 1)
	expectFilled(t, r, queue, "")
}

// A resume with many parked and ready entries goes in bounded steps. The topic stays paused until the last step, which keeps the order.
// If the caller dies, the topic stays paused, and the next resume, or a server once the time is over, completes it.
func TestResumeInSteps(t *testing.T) {
	redistest.Long(t)
	queue, queueAside := "delayer:ready_queue:t", "delayer:paused_queue:t"
	step := func(t *testing.T, b *backend, r *redistest.Server) Resumed {
		r.Do("CONFIG", "RESETSTAT")
		got := made(t, b.Resume("t"))
		if n := r.Calls("lmove"); n > pauseEntries {
			t.Errorf("a step moves %d entries", n)
		}
		return got
	}
	for _, c := range []struct{ aside, ready, steps int }{
		{200_000, 0, 1}, {0, 200_000, 1}, {200_000, pauseEntries, 1}, {pauseEntries, 200_000, 1}, {200_000, 5*pauseEntries + 1, 6}, {5000, 200_000, 200},
	} {
		t.Run(fmt.Sprintf("%d aside, %d ready", c.aside, c.ready), func(t *testing.T) {
			b, r := onRedis(t, alone)
			fill(r, queue, "a", c.aside)
			b.pause(t, "t")
			fill(r, queue, "b", c.ready)
			for n := 1; ; n++ {
				got := step(t, b, r)
				if !got.WasPaused || got.More != (n < c.steps) {
					t.Fatalf("step %d of %d: %+v", n, c.steps, got)
				}
				if all, err := b.Paused(t.Context()); err != nil || len(all) > 0 != got.More {
					t.Fatalf("after step %d of %d paused are %v, %v", n, c.steps, all, err)
				}
				if !got.More {
					break
				}
			}
			expectFilled(t, r, queue, "ab", c.aside, c.ready)
			expectFilled(t, r, queueAside, "")
			if left := r.Strings("KEYS", "delayer:*paused*"); len(left) > 0 {
				t.Errorf("%q are left", left)
			}
		})
	}
	for name, goOn := range endsOfPauses {
		t.Run("it is left, and then "+name, func(t *testing.T) {
			b, r := onRedis(t, alone)
			fill(r, queue, "a", 3*pauseEntries)
			b.pause(t, "t")
			fill(r, queue, "b", 3*pauseEntries)
			if got := step(t, b, r); !got.More {
				t.Fatalf("%+v", got)
			}
			check(t, b.push(t.Context(), Job{ID: "c000001", Topic: "t", Body: "body"}, Due{}, kept, Replace))
			if found, err := CheckAll(t.Context(), Check{b.Store, []string{"t"}, "me", []time.Duration{0}}); err != nil || r.Do("TYPE", "delayer:waiters:t") != "hash" {
				t.Errorf("it is not paused: %+v, %v", found, err)
			}
			goOn(t, b)
			expectFilled(t, r, queue, "abc", 3*pauseEntries, 3*pauseEntries, 1)
			b.resume(t, "t", false)
		})
	}
}

// At maxmemory a server still parks jobs and ends pauses, and a resume succeeds.
func TestPausesEndAtMaxmemory(t *testing.T) {
	b, r := onRedis(t, alone)
	keep := func() { made(t, b.KeepPaused("0")) }
	for name, call := range map[string]func(){"it is resumed": func() { b.resume(t, "t", true) }, "its time is over": keep, "it goes on": keep} {
		b.seed(t)
		fill(r, "delayer:ready_queue:t", "a", 20)
		b.pause(t, "t")
		fill(r, "delayer:ready_queue:t", "b", 10)
		if name == "its time is over" {
			r.Do("HSET", "delayer:paused", "t", "1 2 0 0 ")
		}
		r.Do("CONFIG", "SET", "maxmemory", "1")
		call()
		r.Do("CONFIG", "SET", "maxmemory", "0")
		full, none := "delayer:ready_queue:t", "delayer:paused_queue:t"
		if name == "it goes on" {
			full, none = none, full
		}
		expectFilled(t, r, full, "ab", 20, 10)
		expectFilled(t, r, none, "")
	}
}
