package client_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// waitersOf opens n Clients, each with a BPop that waits for the topics; they began one after the other.
func (f *fixture) waitersOf(n int, topics ...string) (clients []*client.Client, results []<-chan result) {
	f.TB.Helper()
	for range n {
		c := f.open()
		clients, results = append(clients, c), append(results, f.waiter(f.TB.Context(), c, topics...))
	}
	return clients, results
}

// calm makes the Clients check rarely, as if a server were running and checks had found nothing for a long time. looked
// returns the number of checks since then.
func (f *fixture) calm(clients ...*client.Client) (looked func() int) {
	f.TB.Helper()
	f.announceServer()
	looks := func() (n int) {
		for _, c := range clients {
			n += c.Checks()
		}
		return n
	}
	before := make([]int, len(clients))
	for i, c := range clients {
		until(f.TB, "it has looked since it can be woken", func() bool { return c.Checks() > 0 })
		before[i] = c.Checks()
		c.Calm()
	}
	for i, c := range clients {
		until(f.TB, "it has looked once more", func() bool { return c.Checks() > before[i] })
	}
	since := looks()
	return func() int { return looks() - since }
}

// announceServer makes a server known that does nothing.
func (f *fixture) announceServer() {
	f.TB.Helper()
	jobs := clienttest.Jobs(f.reached(client.PoolOptions{}), f.Prefix)
	check(f.TB, errOf(jobs.Stores[0].Heartbeat(store.ServerState{ID: "idle", Age: time.Second, Interval: store.AnnouncedWithin}, 0, 0).Do(f.TB.Context())))
}

// A caller that waits is told that no server makes jobs ready: its server may use another Redis. As long as one runs, or
// nothing is due, there is nothing to say.
func TestNoServer(t *testing.T) {
	t.Parallel()
	f, served, idle := start(t, alone), start(t, alone), start(t, alone)
	var log, others redistest.Log
	served.announceServer()
	quiet := []*client.Client{served.open(client.WithLogger(others.Logger())), idle.open(client.WithLogger(others.Logger()))}
	for i, g := range []*fixture{served, idle} {
		g.waiter(t.Context(), quiet[i], "t")
	}
	check(t, errOf(served.Push(t.Context(), message("a"), time.Millisecond)))
	check(t, errOf(idle.Push(t.Context(), message("a"), time.Hour)))
	check(t, errOf(f.Push(t.Context(), message("a"), time.Millisecond)))
	c := f.open(client.WithLogger(log.Logger()))
	f.waiter(t.Context(), c, "t")
	until(t, "it is told", func() bool {
		return len(log.Lines("no server runs for this Redis and prefix, and jobs have been due for ")) == 1
	})
	for _, c := range quiet {
		until(t, "it has looked for longer", func() bool { return c.Checks() >= 5 })
	}
	others.Expect(t, 0)
	log.Expect(t, 1)
}

// expectNoLooks fails if a check was needed.
func expectNoLooks(t *testing.T, looked func() int) {
	t.Helper()
	if n := looked(); n > 0 {
		t.Errorf("it took %d looks", n)
	}
}

// asked returns the number of polls of queues.
func (f *fixture) asked() int { f.TB.Helper(); return f.Calls("lrange") }

// Of several Clients that wait for a topic, only the one that has waited longest polls for a job. So the cost of a job
// does not grow with the number of Clients.
func TestClientsInOrder(t *testing.T) {
	t.Parallel()
	const n = 10
	f := start(t, alone, undivided)
	clients, results := f.waitersOf(n, "t")
	looked := f.calm(clients...)
	for round := range 2 { // a Client that was served waits behind the others, so the order is the same
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

// Closed Clients, however many, are not woken before a waiting one.
func TestClosedClientsAreNotWoken(t *testing.T) {
	t.Parallel()
	f := start(t)
	for range 120 {
		c := f.open()
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

// A Client waits for many topics with one channel. A job of any topic wakes the Client, which polls no other topic.
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
		if asked, scripts := f.asked()-before, f.Calls("evalsha")-calls; asked > 2 || scripts > 3 { // the push needs one of the scripts
			t.Errorf("to wait again had %d queues asked; %d scripts ran", asked-1, scripts)
		}
	}
	expectNoLooks(t, looked)
}

// Jobs that become ready together reach all waiting Clients: a Client that takes only some of them wakes the next
// Client.
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
