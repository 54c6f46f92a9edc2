package client_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/mix-basic/delayer/client"
)

// refused is a Client whose user may not subscribe.
func (f *fixture) refused(log *lockedLog) *client.Client {
	f.t.Helper()
	f.do("ACL", "SETUSER", "u", "reset", "on", ">p", "~*", "+@all")
	c := client.OpenPool(client.PoolOptions{Addr: f.redis.Addr, Username: "u", Password: "p"}, client.WithLogger(log.logger()))
	f.t.Cleanup(func() { c.Close() })
	return c
}

// pushSilently makes a job ready as an old server does, which tells nobody.
func (f *fixture) pushSilently(id, topic string) {
	f.t.Helper()
	f.do("HSET", "delayer:job_bucket:"+id, "topic", topic, "body", "b")
	f.do("LPUSH", "delayer:ready_queue:"+topic, id)
}

// Who may not subscribe polls, and enters nowhere. Once it is permitted, he is woken.
func TestRefusedChannel(t *testing.T) {
	f := start(t)
	var log lockedLog
	c := f.refused(&log)
	popped := background(func() (client.Message, error) { return c.BPop(t.Context(), 0, "t") })
	until(t, "it polls", c.Polls)
	f.pushSilently("1", "t")
	expectJob(t, waitFor(t, popped), "1")
	if f.waiters("t") > 0 {
		t.Error("it is to be woken, but can't be")
	}
	popped = background(func() (client.Message, error) { return c.BPop(t.Context(), 0, "t") })
	f.do("ACL", "SETUSER", "u", "&delayer:wake:*")
	c.SubscribeAgain()
	f.waits(c, "t", 1)
	if c.Polls() {
		t.Error("it polls though it may subscribe")
	}
	f.push("2", "t")
	expectJob(t, waitFor(t, popped), "2")
	if lines := log.lines(); len(lines) != 1 {
		t.Errorf("said %q, want one line", lines)
	}
	f.expect(state{})
}

// Who may not subscribe says so once, and asks for some of very many topics at a time, not each time
// for all.
func TestManyRefusedChannels(t *testing.T) {
	const topics = 4 * client.PollAtOnce
	f := start(t)
	var log lockedLog
	c := f.refused(&log)
	results := make(chan result, topics)
	for n := range topics {
		go func() {
			m, err := c.BPop(t.Context(), 0, fmt.Sprint("t", n))
			results <- result{m: m, err: err}
		}()
	}
	until(t, "all topics are polled", func() bool { return client.Queues(c) == topics && c.Polls() })
	looks := func() int { return f.info("commandstats", "cmdstat_exists:calls=") }
	subscribes := f.info("commandstats", "cmdstat_subscribe:calls=")
	began, before := f.clock(), looks()
	until(t, "Redis was asked 20 times", func() bool { return looks() >= before+20 })
	if took := f.clock() - began; took < 0.8 { // 1 s, were each look's time right
		t.Errorf("asked 20 times in %.1f s", took)
	}
	if n := f.info("commandstats", "cmdstat_subscribe:calls=") - subscribes; n > 0 {
		t.Errorf("%d channels were asked for again", n)
	}
	var want, got []string
	for n := 0; n < topics; n += topics / 8 {
		want = append(want, fmt.Sprint(n))
		f.pushSilently(fmt.Sprint(n), fmt.Sprint("t", n))
	}
	for range want {
		r := waitFor(t, results)
		if r.err != nil {
			t.Fatal(r.err)
		}
		got = append(got, r.m.ID)
	}
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if lines := log.lines(); len(lines) != 1 {
		t.Errorf("said %q, want one line", lines)
	}
	f.expect(state{})
}
