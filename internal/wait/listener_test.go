package wait

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/batch"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// A poll registers the client, with the time that its first caller has waited, if its callers wait. If other callers wait, it also registers at topics
// that had just as many jobs as wanted. It does not register for callers that do not wait, nor without a subscription.
func TestRegister(t *testing.T) {
	for _, c := range []struct {
		name    string
		waiting int    // callers that wait already
		woken   int    // jobs
		joins   []bool // further callers, that wait or not
		state   listenerState
		want    bool
		always  bool
	}{
		{"one that waits", 0, 0, []bool{true}, subscribed, true, false},
		{"several that wait", 0, 0, []bool{true, true}, subscribed, true, false},
		{"one that does not wait", 0, 0, []bool{false}, subscribed, false, false},
		{"one of each", 0, 0, []bool{false, true}, subscribed, true, false},
		{"for all that wait already", 2, 2, nil, subscribed, true, false},
		{"for fewer than wait already", 2, 1, nil, subscribed, true, true},
		{"for one that does not wait, behind another", 1, 0, []bool{false}, subscribed, true, false},
		{"for one that does not wait, and fewer than wait", store.MaxPop, 0, []bool{false}, subscribed, true, true},
		{"for fewer than want to wait", 0, 0, slices.Repeat([]bool{true}, store.MaxPop+1), subscribed, true, true},
		{"for fewer than ask", 0, 0, slices.Repeat([]bool{false}, store.MaxPop+1), subscribed, false, false},
		{"not subscribed", 2, 1, nil, unsubscribed, false, false},
		{"refused", 0, 0, []bool{true}, refused, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := inHand(t)
			for range c.waiting {
				h.waiter("t")
			}
			h.settle()
			for _, waits := range c.joins {
				h.joins(Request{Topics: []string{"t"}, N: 1, Waits: waits})
			}
			time.Sleep(time.Hour)
			h.listener.state = c.state
			if c.woken > 0 {
				h.wakes("t", c.woken)
			}
			want := store.Registration{Waiter: h.listener.id, Since: time.Hour, Always: c.always}
			if !c.want {
				want = store.Registration{}
			}
			if got := h.asks().Registration; got != want {
				t.Errorf("%s: %+v, want %+v", c.name, got, want)
			}
		})
	}
}

// When the subscription ends, registered topics become unknown. So do topics that the reply to an earlier poll or check reports as registered.
func TestEpochs(t *testing.T) {
	h := inHand(t)
	h.registered("t", "u")
	q := h.listener.question(h.waited())
	h.wakes("t", 1)
	one := h.asks()
	h.listener.close()
	h.listener.changeState(subscribed)
	h.answer(one, store.Popped{Registered: true}, nil)
	h.finds(q, true, nil)
	h.expectFacts("after the end", "t", "")
	h.expectFacts("after the end", "u", "")
	if first, second := len(h.listener.news()), len(h.listener.news()); first != 2 || second != 0 {
		t.Errorf("%d and %d topics are checked once it is subscribed", first, second)
	}
	h.check(true, nil)
	h.expectFacts("in the next epoch", "t", "registered")
	h.expectFacts("in the next epoch", "u", "registered")
}

// waited returns the topics with waiters.
func (h *hand) waited() []*readyQueue { return h.listener.queues(isWaitedFor) }

// A check registers the client for topics where its registration may be missing, with the time that the first caller has waited. It also checks one
// other topic, to detect lost registrations.
func TestQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := inHand(t)
		times := map[string]int{"unknown": 0, "registered": 0, "long ago": 0, "too": 0, "as well": 0}
		for topic := range times {
			h.registered(topic)
		}
		time.Sleep(time.Second)
		for topic := range times {
			h.registered(topic)
			h.ready(topic).registeredAt = time.Now()
		}
		h.ready("unknown").unheard()
		h.ready("long ago").registeredAt = time.Now().Add(-registerAgain - 1)
		const rounds = 300
		for range rounds {
			q := h.listener.question(h.waited())
			if len(q) != 1 || q[0].Waiter != h.listener.id {
				t.Fatalf("it is %q that waits", q[0].Waiter)
			}
			samples := 0
			for i, topic := range q[0].Topics {
				if since := q[0].Since[i]; since == time.Second {
					times[topic]++
					if topic != "unknown" && topic != "long ago" {
						samples++
					}
				} else if since >= 0 {
					t.Errorf("%s: waits for %v", topic, since)
				}
			}
			if samples > 1 {
				t.Errorf("%d other topics are checked", samples)
			}
		}
		for topic, n := range times {
			if all := topic == "unknown" || topic == "long ago"; all && n != rounds || !all && (n == 0 || n > rounds/2) {
				t.Errorf("%s: %d times out of %d", topic, n, rounds)
			}
		}
		topics := h.waited()
		for _, g := range h.guests {
			g.leaves(store.ErrEmpty)
		}
		if q := h.listener.question(topics); slices.Max(q[0].Since) >= 0 {
			t.Errorf("it is registered where nobody waits any more: %v", q[0].Since)
		}
		for _, state := range []listenerState{unsubscribed, refused} {
			h.listener.state = state
			if q := h.listener.question(topics); q[0].Waiter != "" {
				t.Error("it is registered though nobody would hear")
			}
		}
	})
}

// If one registration is missing, others may be missing, too. All are made again.
func TestMissingRegistration(t *testing.T) {
	h := inHand(t)
	h.registered("t", "u", "v")
	for h.listener.news() != nil { // from the start
	}
	ofT := func() []*check { return h.listener.question([]*readyQueue{h.ready("t")}) }
	h.finds(ofT(), true, nil) // the sample finds the registration
	if h.expectFacts("nothing is missing", "u", "registered"); h.listener.news() != nil {
		t.Fatal("topics are checked though nothing is missing")
	}
	h.finds(ofT(), true, nil, "t")
	for topic, want := range map[string]string{"t": "registered", "u": "", "v": ""} {
		h.expectFacts("one was missing", topic, want)
	}
	topics := h.listener.news()
	if len(topics) != 2 {
		t.Fatalf("%d topics are checked then, want the others", len(topics))
	}
	h.finds(h.listener.question(topics), true, nil, "u", "v")
	for _, topic := range []string{"t", "u", "v"} {
		h.expectFacts("after that check", topic, "registered")
	}
	if h.listener.news() != nil {
		t.Error("they are checked once more")
	}
}

// A message that arrives while a check is in flight is newer than its reply.
func TestMessageDuringACheck(t *testing.T) {
	h := inHand(t)
	h.registered("t")
	q := h.listener.question(h.waited())
	h.wakes("t", 1)
	h.finds(q, true, nil, "t")
	if h.expectFacts("woken", "t", "1 told due"); h.State("t").Checks != 1 {
		t.Errorf("%d checks", h.State("t").Checks)
	}
}

// A Listener runs while callers wait and lingers briefly. Then all its state is dropped.
func TestListenerLingers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := inHand(t)
		e := h.listener
		g := h.registered("t")
		if time.Sleep(time.Hour); !e.isWanted() || e.ends() {
			t.Error("it ends though somebody waits")
		}
		g.leaves(store.ErrEmpty)
		if !e.isWanted() {
			t.Error("it ends at once")
		}
		time.Sleep(lingerFor - 1)
		h.asker("u")
		if e.ends() {
			t.Error("it does not linger")
		}
		h.expectFacts("it lingers", "t", "registered")
		time.Sleep(time.Nanosecond)
		if !e.ends() || e.isWanted() || e.running {
			t.Error("it lingers on")
		}
		h.expectFacts("at the end", "t", "dropped")
		h.waiter("t")
		h.settle()
		if e.running = true; !e.isWanted() || e.ends() {
			t.Error("it ends though somebody waits again")
		}
		if e.Renew(); !e.ends() {
			t.Error("it keeps a connection that is to be replaced")
		}
		if h.close(); e.isWanted() {
			t.Error("it goes on after Close")
		}
	})
}

// gone is a connection that still delivers messages after it was closed.
type gone struct {
	cut
	reads, closed chan struct{}
	ended         atomic.Bool
}

func (g *gone) Close() error { close(g.closed); return nil }

func (g *gone) ReceiveWithTimeout(time.Duration) (any, error) {
	close(g.reads)
	<-g.closed
	for range 1000 {
		runtime.Gosched()
	}
	g.ended.Store(true)
	return nil, errCut
}

func (g *gone) DoWithTimeout(time.Duration, string, ...any) (any, error) { return nil, errCut }

// The last messages of a connection are handled before its registrations become void, and before Close returns.
func TestListenerHearsNothingAfterItsEnd(t *testing.T) {
	h := inHand(t)
	conn := &gone{reads: make(chan struct{}), closed: make(chan struct{})}
	h.store = store.New(&redis.Pool{Dial: func() (redis.Conn, error) { return conn, nil }}, store.DefaultPrefix)
	go func() { <-conn.reads; h.close() }()
	h.listener.listen()
	if !conn.ended.Load() {
		t.Error("it still hears")
	}
}

// client is a Client's partition of a real Redis.
type client struct {
	*Partition
	end func() // closes it, and waits until all its goroutines have ended
}

func onRedis(t *testing.T, log *redistest.Log, of *store.Store) *client {
	closing, cancel := context.WithCancel(context.Background())
	abandoned, abandon := context.WithCancel(context.Background())
	owner := &batch.Owner{Running: new(sync.WaitGroup), Closed: errClosed}
	of.EndWith(abandoned, errClosed)
	s := NewShared(closing, owner, of, Hooks{log.Logger(), func(store.Popped) {}, func(int) {}})
	c := &client{Partition: s.NewPartition(of)}
	s.NewListener(c.Partition)
	c.end = sync.OnceFunc(func() {
		cancel()
		owner.Running.Wait()
		abandon()
	})
	t.Cleanup(c.end)
	return c
}

// waits starts a call that waits for a job of topic t, and returns once the Listener has checked.
func (c *client) waits(t *testing.T, ctx context.Context) <-chan taken {
	t.Helper()
	result := make(chan taken, 1)
	go func() {
		caller := c.shared.NewCaller(Request{Topics: []string{"t"}, N: 1, Waits: true})
		got, err := caller.Poll(ctx, c.Partition)
		if err == store.ErrEmpty {
			got, err = caller.Wait(ctx, 0, err)
		}
		result <- taken{got, err}
	}()
	redistest.Until(t, "it waits", func() bool {
		s := c.State("t")
		return s.Waiting == 1 && (s.Registered || s.Refused) && s.Checks > 0
	})
	return result
}

// A Listener wakes its callers, finds jobs without a message, passes on wake-ups that its callers cannot use, and reports an outage to its callers.
func TestListener(t *testing.T) {
	t.Parallel()
	f := redistest.Start(t)
	st := store.New(f.Pool(), store.DefaultPrefix)
	var log redistest.Log
	first, second := onRedis(t, &log, st), onRedis(t, &log, st)
	ready := func(id string, woken bool) {
		f.Do("HSET", "delayer:job_bucket:"+id, "topic", "t", "body", "b")
		f.Do("LPUSH", "delayer:ready_queue:t", id)
		if woken {
			f.Do("EVAL", `local first = redis.call('ZPOPMIN', 'delayer:waiters:t')[1]
				return redis.call('PUBLISH', 'delayer:wake:' .. first, '1 t')`, 0)
		}
	}
	expect := func(result <-chan taken, id string) {
		t.Helper()
		if got := redistest.Receive(t, result); got.err != nil || got.Jobs.Jobs[0].ID != id {
			t.Fatalf("%+v", got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	one := first.waits(t, ctx)
	ready("woken", true)
	expect(one, "woken")
	one = first.waits(t, ctx)
	ready("silent", false)
	expect(one, "silent")

	one = first.waits(t, ctx)
	two := second.waits(t, t.Context())
	cancel()
	if got := redistest.Receive(t, one); !errors.Is(got.err, context.Canceled) {
		t.Fatalf("%+v", got)
	}
	f.Do("HSET", "delayer:servers", "one", "runs")
	checks := second.State("").Checks
	second.Calm()
	redistest.Until(t, "it checks seldom then", func() bool { return second.State("").Checks > checks })
	checks = second.State("").Checks
	ready("passed on", true)
	expect(two, "passed on")
	if n := second.State("").Checks - checks; n > 0 {
		t.Errorf("it took %d checks", n)
	}

	if !testing.Short() { // an outage is reported after RetryWindow
		two = second.waits(t, t.Context())
		f.Kill()
		if got := redistest.Receive(t, two); got.err == nil || errors.Is(got.err, store.ErrEmpty) {
			t.Errorf("of an outage: %+v", got)
		}
	}
	first.end()
	second.end()
}

// A Listener without permission to subscribe polls, and logs that once.
func TestRefusedListener(t *testing.T) {
	t.Parallel()
	f := redistest.Start(t)
	f.SetUser("~* +@all resetchannels")
	var log redistest.Log
	c := onRedis(t, &log, store.New(f.UserPool(), store.DefaultPrefix))
	result := c.waits(t, t.Context())
	c.SubscribeAgain()
	checks := c.State("").Checks
	redistest.Until(t, "it has polled again", func() bool { return c.State("").Checks > checks+2 })
	f.Do("HSET", "delayer:job_bucket:a", "topic", "t", "body", "b")
	f.Do("LPUSH", "delayer:ready_queue:t", "a")
	if got := redistest.Receive(t, result); got.err != nil {
		t.Errorf("%+v", got)
	}
	log.Expect(t, 1, "may not subscribe")
	c.end()
}

// A Listener registers its program once per subscription. It removes that, and the registrations of its topics, when it ends.
func TestListenerTellsWhoItIs(t *testing.T) {
	t.Parallel()
	f := redistest.Start(t)
	c := onRedis(t, new(redistest.Log), store.New(f.Pool(), store.DefaultPrefix))
	result := c.waits(t, t.Context())
	registered := func() []string { return f.Strings("KEYS", "delayer:client:*") }
	isThere := func() bool { return len(registered()) == 1 }
	redistest.Until(t, "it is registered", isThere)
	me := store.ThisProgram()
	if got := f.Strings("LRANGE", registered()[0], 0, -1); !slices.Equal(got, []string{me.Host, fmt.Sprint(os.Getpid()), me.Name}) || me.Name == "" {
		t.Errorf("it says %q", got)
	}
	f.Do("DEL", registered()[0])
	checks := c.State("").Checks
	redistest.Until(t, "it has checked twice", func() bool { return c.State("").Checks >= checks+2 })
	if isThere() {
		t.Error("it registers with a check")
	}
	f.Do("CLIENT", "KILL", "TYPE", "pubsub")
	redistest.Until(t, "it is registered anew", isThere)
	c.end()
	<-result
	if left := f.Strings("KEYS", "delayer:*"); slices.ContainsFunc(left, func(key string) bool { return key != "delayer:servers" }) {
		t.Errorf("%q stay", left)
	}
}
