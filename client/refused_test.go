package client_test

import (
	"fmt"
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

// If the permission for one topic is revoked, only the waits for that topic end.
func TestPermissionForOneTopicIsRevoked(t *testing.T) {
	t.Parallel()
	f := start(t, alone, undivided)
	c := f.as("u", "~* &* +@all")
	may := f.waiter(t.Context(), c, "may")
	mayNot := f.waiter(t.Context(), c, "may not")
	f.Do("ACL", "SETUSER", "u", "resetkeys", "~delayer:job_*", "~delayer:ready_queue:may")
	expectText(t, "BPop of the other", arrival(t, mayNot).err, "NOPERM")
	f.push("a", "may")
	expectJob(t, may, "a")
}
