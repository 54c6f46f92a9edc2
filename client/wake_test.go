package client_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/mix-basic/delayer/client"
)

// waitersOf are n Clients, each with a BPop that waits for the topics; they began one after the other.
func (f *fixture) waitersOf(n int, topics ...string) (clients []*client.Client, results []<-chan result) {
	f.TB.Helper()
	for range n {
		c := f.open()
		clients, results = append(clients, c), append(results, f.waiter(f.TB.Context(), c, topics...))
	}
	return clients, results
}

// calm has the Clients look seldom, as where a server runs and looks have found nothing for long. looked is how
// often they have looked since.
func (f *fixture) calm(clients ...*client.Client) (looked func() int) {
	f.TB.Helper()
	f.Do("HSET", "delayer:servers", "one", "runs")
	looks := func() (n int) {
		for _, c := range clients {
			n += c.Looks()
		}
		return n
	}
	before := make([]int, len(clients))
	for i, c := range clients {
		until(f.TB, "it has looked since it can be woken", func() bool { return c.Looks() > 0 })
		before[i] = c.Looks()
		c.Calm()
	}
	for i, c := range clients {
		until(f.TB, "it has looked once more", func() bool { return c.Looks() > before[i] })
	}
	since := looks()
	return func() int { return looks() - since }
}

// expectNoLooks checks that what has happened needed no look.
func expectNoLooks(t *testing.T, looked func() int) {
	t.Helper()
	if n := looked(); n > 0 {
		t.Errorf("it took %d looks", n)
	}
}

// asked is how often queues were asked for jobs.
func (f *fixture) asked() int { f.TB.Helper(); return f.Calls("lrange") }

// Of several Clients that wait for a topic one asks for a job: the one that has waited longest. So what a job costs does
// not grow with their number.
func TestClientsInOrder(t *testing.T) {
	t.Parallel()
	const n = 10
	f := start(t, alone, undivided)
	clients, results := f.waitersOf(n, "t")
	looked := f.calm(clients...)
	for round := range 2 { // who was served waits behind the others then, and so the order is the same
		for i, c := range clients {
			id := fmt.Sprint(round, " ", i)
			before := f.asked()
			f.push(id, "t")
			expectJob(t, results[i], id)
			if asked := f.asked() - before; asked != 1 {
				t.Errorf("job %s was asked for %d times", id, asked)
			}
			results[i] = f.waiter(t.Context(), c, "t")
		}
	}
	expectNoLooks(t, looked)
	if got := f.Waiters("t"); got != n {
		t.Errorf("%d Clients wait at last, want %d", got, n)
	}
}

// A Client that is woken and has no caller left passes the job on to the next.
func TestWokenInVain(t *testing.T) {
	t.Parallel()
	f := start(t, alone, undivided)
	clients := []*client.Client{f.open(), f.open(), f.open()}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var gone []<-chan result
	for _, c := range clients[:2] {
		gone = append(gone, f.waiter(ctx, c, "t", "u"))
	}
	popped := f.waiter(t.Context(), clients[2], "t")
	looked := f.calm(clients...)
	cancel()
	for _, popped := range gone {
		expectError(t, popped, context.Canceled)
	}
	before := f.asked()
	f.push("a", "t")
	expectJob(t, popped, "a")
	expectNoLooks(t, looked)
	if asked := f.asked() - before; asked != 1 {
		t.Errorf("the job was asked for %d times", asked)
	}
	if got := f.Waiters("t"); got != 0 {
		t.Errorf("%d Clients are to be woken though none waits", got)
	}
}

// Clients that were closed do not stand before one that waits, however many there were.
func TestClosedClientsAreNotWoken(t *testing.T) {
	t.Parallel()
	f := start(t)
	for range 120 {
		c := f.on(f.Pool())
		ctx, cancel := context.WithCancel(t.Context())
		f.waiter(ctx, c, "t", "u")
		until(t, "it is entered", func() bool { return f.Waiters("t") == 1 && f.Waiters("u") == 1 })
		cancel()
		check(t, c.Close())
		if left := f.Waiters("t") + f.Waiters("u"); left != 0 {
			t.Fatalf("a closed Client still has %d entries", left)
		}
	}
}

// A caller who leaves while a pop is under way that his Client was woken for, and that brings nothing, leaves no
// job behind that comes meanwhile.
func TestWokenWhileLeaving(t *testing.T) {
	t.Parallel()
	f := start(t, undivided)
	f.Pop(t.Context(), "t") // loads the script
	h := f.hold("t")
	c := f.on(h.Redis)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	gone := f.heldWaiter(ctx, c, h, 0)
	other := f.open()
	popped := f.waiter(t.Context(), other, "t")
	looked := f.calm(c, other)
	f.wake("t")
	<-h.sent // and it has found none: it is entered again, in front of the other
	until(t, "it is entered", func() bool { return f.Waiters("t") == 2 })
	cancel()
	until(t, "the caller wants to go", func() bool { return client.Leaving(c, "t") == 1 })
	wakes := client.Wakes(c, "t")
	f.push("a", "t")
	until(t, "the push is heard", func() bool { return client.Wakes(c, "t") > wakes })
	h.pass <- nil
	expectError(t, gone, context.Canceled)
	expectJob(t, popped, "a")
	expectNoLooks(t, looked)
}

// Clients that were killed are left out.
func TestDeadClientsAreLeftOut(t *testing.T) {
	t.Parallel()
	f := start(t, undivided)
	f.Do("ZADD", "delayer:waiting:t", 1, "killed", 2, "killed, too", 3, "killed as well")
	clients, results := f.waitersOf(1, "t")
	looked := f.calm(clients...)
	f.push("a", "t")
	expectJob(t, results[0], "a")
	expectNoLooks(t, looked)
	if n := f.Do("EXISTS", "delayer:waiting:t"); n != int64(0) {
		t.Error("the dead still stand there")
	}
}

// A Client waits for many topics with one channel. A job of any of them wakes it, and it asks for no other.
func TestManyTopicsOneChannel(t *testing.T) {
	t.Parallel()
	const n = 1000
	f := start(t, alone, undivided)
	topics := make([]string, n)
	for i := range topics {
		topics[i] = fmt.Sprint("t", i)
	}
	c := f.open()
	popped := f.waiter(t.Context(), c, topics...)
	looked := f.calm(c)
	list := map[bool]string{false: "CHANNELS", true: "SHARDCHANNELS"}[f.Clustered]
	if channels := f.Strings("PUBSUB", list, "*"); len(channels) != 1 || !strings.HasPrefix(channels[0], f.Prefix+"wake:") {
		t.Errorf("the channels are %q", channels)
	}
	for _, i := range []int{0, n / 2, n - 1} {
		before, calls := f.asked(), f.Calls("evalsha")
		f.push(topics[i], topics[i])
		expectJob(t, popped, topics[i])
		if asked := f.asked() - before; asked != 1 {
			t.Errorf("a job of %s had %d queues asked", topics[i], asked)
		}
		popped = f.waiter(t.Context(), c, topics...)
		if asked, scripts := f.asked()-before, f.Calls("evalsha")-calls; asked > 2 || scripts > 3 { // the push's is one of them
			t.Errorf("to wait again had %d queues asked; %d scripts ran", asked-1, scripts)
		}
	}
	expectNoLooks(t, looked)
}

// Jobs that become ready at once reach all who wait: whoever takes some and leaves others wakes the next.
func TestManyJobsAtOnce(t *testing.T) {
	t.Parallel()
	const waiters, n = 5, 20
	f := start(t, alone, undivided)
	clients, results := f.waitersOf(waiters, "t")
	looked := f.calm(clients...)
	before := f.Calls("publish", "spublish")
	check(t, errOf(f.PushBatch(t.Context(), jobs(0, n, "t", 0))))
	got := map[string]bool{}
	for _, popped := range results {
		got[arrival(t, popped).m.ID] = true
	}
	if len(got) != waiters || got[""] {
		t.Errorf("they have got %v", got)
	}
	expectNoLooks(t, looked)
	if woken := f.Calls("publish", "spublish") - before; woken != waiters {
		t.Errorf("%d were woken, want each of %d once", woken, waiters)
	}
}

// After FLUSHALL a look finds that the Client does not stand among the waiters, and enters it everywhere.
func TestEntriesAreMadeAnew(t *testing.T) {
	t.Parallel()
	f := start(t)
	topics := []string{"t", "u", "v"}
	popped := f.waiter(t.Context(), f.Client, topics...)
	until(t, "it has looked since it can be woken", func() bool { return f.Looks() > 0 })
	f.Flush()
	for _, topic := range topics {
		f.AwaitWaiter(topic)
	}
	f.push("a", "v")
	expectJob(t, popped, "a")
}

// Looks become seldom where a server runs that wakes, and not where there may be others alone.
func TestSeldomLooks(t *testing.T) {
	t.Parallel()
	f := start(t, undivided)
	served, alone := f.open(), f.open(client.WithPrefix("alone:"+f.Prefix))
	f.waiter(t.Context(), served, "t")
	f.waiter(t.Context(), alone, "t")
	until(t, "it has looked", func() bool { return alone.Looks() > 0 })
	alone.Calm()
	looked := f.calm(served)
	before := alone.Looks()
	until(t, "it has looked some times", func() bool { return alone.Looks() >= before+4 })
	expectNoLooks(t, looked)
}
