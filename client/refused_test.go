package client_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// A user without permission to subscribe, for example one with the default permissions of Redis 7, polls and registers
// nowhere, and the log reports this once. When the permission comes, its Client is woken.
func TestRefusedChannel(t *testing.T) {
	eachWaiter(t, func(t *testing.T, take taker) {
		t.Parallel()
		f := start(t, alone, undivided)
		var log redistest.Log
		c := f.as("u", "~delayer:* +@all -@dangerous", client.WithLogger(log.Logger()))
		wait := func() <-chan result { return inBackground(t.Context(), take, c, 0, "t") }
		for n := range 3 {
			taken := wait()
			until(t, "it polls", func() bool { _, waiting := client.Callers(c, "t"); return waiting == 1 && c.Polls() })
			f.pushSilently(fmt.Sprint(n), "t")
			expectJob(t, taken, fmt.Sprint(n))
		}
		taken := wait()
		began, before := f.Clock(), f.Calls("exists")
		until(t, "it has asked 20 times", func() bool { return f.Calls("exists") >= before+20 })
		if took := f.Clock() - began; took < 0.8 || took > 10 { // 1 s on an idle machine
			t.Errorf("asked 20 times in %.1f s", took)
		}
		if f.Waiters("t") > 0 {
			t.Error("it is to be woken, but can't be")
		}
		f.Do("ACL", "SETUSER", "u", "&delayer:wake:*")
		c.SubscribeAgain()
		until(t, "it polls no more", func() bool { return !c.Polls() })
		f.AwaitWaiter("t")
		f.push("last", "t")
		expectJob(t, taken, "last")
		log.Expect(t, 1)
		log.Expect(t, 1, fmt.Sprintf("&%swake:* +%s", f.Prefix, map[bool]string{false: "subscribe", true: "ssubscribe"}[f.Clustered]))
	})
}

// A user without permission to subscribe gets one log line. With very many topics the Client polls only some of them at
// a time.
func TestManyRefusedChannels(t *testing.T) {
	t.Parallel()
	const topics = 4 * client.PollAtOnce
	f := start(t, alone, undivided)
	var log redistest.Log
	c := f.as("u", "~* +@all", client.WithLogger(log.Logger()))
	results := many(topics, func(n int) (client.Message, error) { return c.BPop(t.Context(), 0, fmt.Sprint("t", n)) })
	until(t, "all topics are polled", func() bool { return client.Queues(c) == topics && c.Polls() })
	looks := func() int { return f.Calls("exists") }
	subscribes := f.Calls("subscribe")
	began, before := f.Clock(), looks()
	until(t, "Redis was asked 20 times", func() bool { return looks() >= before+20 })
	if took := f.Clock() - began; took < 0.8 { // 1 s if each check is on time
		t.Errorf("asked 20 times in %.1f s", took)
	}
	if n := f.Calls("subscribe") - subscribes; n > 0 {
		t.Errorf("%d channels were asked for again", n)
	}
	var want []string
	for n := 0; n < topics; n += topics / 8 {
		want = append(want, fmt.Sprint(n))
		f.pushSilently(fmt.Sprint(n), fmt.Sprint("t", n))
	}
	slices.Sort(want)
	if got := expectOnce(t, results, len(want)); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	log.Expect(t, 1)
	f.Expect(state{})
}
