package client_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mix-basic/delayer/client"
)

// hears is a Client whose user may listen to some topics only.
func (f *fixture) hears(log *lockedLog, topics ...string) *client.Client {
	f.t.Helper()
	args := []any{"SETUSER", "u", "reset", "on", ">p", "~*", "+@all"}
	for _, topic := range topics {
		args = append(args, "&delayer:ready:"+topic)
	}
	f.do("ACL", args...)
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

// A refused channel concerns its own topic only: that one is polled, the others are listened to.
// Once it is permitted, that one is, too.
func TestRefusedChannel(t *testing.T) {
	f := start(t)
	var log lockedLog
	c := f.hears(&log, "a", "c")
	bpop := func(topic string) <-chan result {
		return background(func() (client.Message, error) { return c.BPop(t.Context(), 0, topic) })
	}
	a, refused := bpop("a"), bpop("refused")
	f.waits(c, "a", 1)
	until(t, "the refused topic is polled", func() bool { return c.Polled() == 1 })
	last := bpop("c") // it comes later
	f.waits(c, "c", 1)
	if f.listeners("a") != 1 || f.listeners("refused") != 0 || c.Polled() != 1 {
		t.Errorf("%d listen to a, %d to the refused one, %d are polled", f.listeners("a"), f.listeners("refused"), c.Polled())
	}
	f.pushSilently("1", "refused")
	expectJob(t, waitFor(t, refused), "1")
	f.push("2", "a")
	expectJob(t, waitFor(t, a), "2")
	f.push("3", "c")
	expectJob(t, waitFor(t, last), "3")

	refused = bpop("refused")
	f.do("ACL", "SETUSER", "u", "&delayer:ready:refused")
	c.ListenAgain()
	f.waits(c, "refused", 1)
	until(t, "it is not polled any more", func() bool { return c.Polled() == 0 })
	f.push("4", "refused")
	expectJob(t, waitFor(t, refused), "4")
	if lines := log.lines(); len(lines) != 1 || !strings.Contains(lines[0], "topic=refused") {
		t.Errorf("said %q, want one line that names the topic", lines)
	}
	f.expect(state{})
}

// Who may listen to none of very many topics says so once, and asks for some of them at a time,
// not each time for all.
func TestManyRefusedChannels(t *testing.T) {
	const topics = 4 * client.PollAtOnce
	f := start(t)
	var log lockedLog
	c := f.hears(&log)
	results := make(chan result, topics)
	for n := range topics {
		go func() {
			m, err := c.BPop(t.Context(), 0, fmt.Sprint("t", n))
			results <- result{m: m, err: err}
		}()
	}
	until(t, "all topics are polled", func() bool { return c.Polled() == topics })
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
