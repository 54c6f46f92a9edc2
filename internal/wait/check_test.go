package wait

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
)

// Checks run every second at first and after a check has found a job. They become rare once they have found nothing for a long time, the client is
// registered everywhere, and a running server wakes it. Without a subscription they are frequent. A check that is due earlier is not deferred.
func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name       string
		found      time.Duration // time since then
		served     bool
		registered bool
		state      listenerState
		want       time.Duration
	}{
		{"lately", calmAfter - 1, true, true, subscribed, checkEvery},
		{"long ago", calmAfter, true, true, subscribed, slowCheck},
		{"no server", calmAfter, false, true, subscribed, checkEvery},
		{"not registered everywhere", calmAfter, true, false, subscribed, checkEvery},
		{"refused", calmAfter, true, true, refused, pollEvery},
		{"refused lately", 0, false, false, refused, pollEvery},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := inHand(t)
			h.registered("t", "u")
			if !c.registered {
				h.ready("u").unheard()
			}
			h.listener.state, h.listener.lastHit = c.state, time.Now().Add(-c.found)
			now := time.Now()
			for next, want := range map[time.Duration]time.Duration{-time.Second: c.want, time.Hour: c.want, 0: c.want, 10 * time.Millisecond: 10 * time.Millisecond} {
				h.shared.served, h.shared.askedServed = c.served, now
				k := &checks{listener: h.listener, next: now.Add(next), expected: now}
				if k.plan(); !k.next.Equal(now.Add(want)) {
					t.Errorf("%s: the next check is in %v instead of %v, want %v", c.name, k.next.Sub(now), next, want)
				}
			}
		})
	}
}

// A topic that became unknown is checked soon, even if the next check is far off.
func TestCheckAfterAnError(t *testing.T) {
	h := inHand(t)
	h.waiter("t")
	one := h.asks()
	h.answer(one, store.Popped{}, errCut)
	select {
	case <-h.listener.changed:
	default:
		t.Fatal("the Listener is not told")
	}
	if got := h.listener.news(); len(got) != 1 || got[0].topic.name != "t" {
		t.Errorf("%d topics are checked at once", len(got))
	}
}

// Whether a server runs is asked every minute if one does, and otherwise more often. If the partition that knows hangs, the checks do not wait for
// it, and ask later.
func TestServerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := inHand(t)
		asked := 0
		h.shared.keeper = store.New(&redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
			asked++
			<-ctx.Done()
			return nil, ctx.Err()
		}}, store.DefaultPrefix)
		k := newChecks(h.listener)
		began := time.Now()
		for range 200 {
			k.plan()
			time.Sleep(time.Second)
		}
		if most := int(time.Since(began)/servedEvery) + 1; h.shared.served || asked < 2 || asked > most {
			t.Errorf("in %v it is asked %d times", time.Since(began), asked)
		}
	})
}

// Checks become frequent again when a check finds a job and a poll then takes it. A job that a message announced in the meantime does not count, nor
// does a job that another client took first.
func TestFound(t *testing.T) {
	for _, c := range []struct {
		name        string
		told, taken bool
		want        bool
	}{
		{"found and taken", false, true, true},
		{"told meanwhile", true, true, false},
		{"taken by another", false, false, false},
	} {
		h := inHand(t)
		h.registered("t")
		h.listener.lastHit = time.Time{}
		h.check(true, map[string]int{"t": 1})
		if c.told {
			h.wakes("t", 1)
		}
		var popped store.Popped
		if c.taken {
			popped.Jobs = jobs("t", 1)
		}
		h.answer(h.asks(), popped, nil)
		if got := !h.listener.lastHit.IsZero(); got != c.want {
			t.Errorf("%s: found lately %v", c.name, got)
		}
		if !c.taken { // a later message does not count for this check
			h.wakes("t", 1)
			if h.answer(h.asks(), store.Popped{Jobs: jobs("t", 1)}, nil); !h.listener.lastHit.IsZero() {
				t.Errorf("%s: what was told counts as found", c.name)
			}
		}
	}
}

// Checks of many Clients are spread over one second.
func TestChecksAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := inHand(t)
		var firstHalf int
		for range 100 {
			k := newChecks(h.listener)
			in := time.Until(k.next)
			if in > checkEvery || in < 0 || h.listener.lastHit != k.began || k.asked != k.began {
				t.Fatalf("the first check is in %v; %+v", in, k)
			}
			if in < checkEvery/2 {
				firstHalf++
			}
		}
		if firstHalf < 10 || firstHalf > 90 {
			t.Errorf("%d of 100 are in the first half of the second", firstHalf)
		}
	})
}

// All topics with callers are checked together, and those that nobody has wanted for a while are dropped. The more there are, the rarer
// are checks, where no server of the original may run, or we cannot be woken.
func TestTopicsThatAreDue(t *testing.T) {
	for _, c := range []struct {
		partitions, topics int
		state              listenerState
		next               time.Duration
	}{
		{1, 3, subscribed, checkEvery},
		{1, 3000, subscribed, checkEvery},
		{1, 3, refused, pollEvery},
		{1, 250, refused, pollEvery},
		{1, 500, refused, 2 * pollEvery},
		{1, 20000, refused, checkEvery},
		{2, 3, subscribed, checkEvery},
		{2, 500, subscribed, checkEvery},
		{2, 1500, subscribed, 3 * checkEvery},
		{2, 10000, subscribed, slowCheck},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := inHands(t, c.partitions)
			for n := range c.topics {
				g := &guest{Caller: h.shared.NewCaller(Request{Topics: []string{fmt.Sprint(n)}, N: 1, Waits: true}), h: h}
				g.enter(nil)
			}
			h.registered("gone").leaves(store.ErrEmpty)
			h.shared.topics["gone"].left = time.Now().Add(-lingerFor)
			h.listener.state = c.state
			k := newChecks(h.listener)
			h.shared.askedServed, k.expected = time.Now(), time.Now()
			topics := k.due()
			k.next = time.Now()
			if k.plan(); len(topics) != c.partitions*c.topics || h.shared.topics["gone"] != nil || time.Until(k.next) != c.next {
				t.Errorf("%d topics of %d partitions, state %d: %d are checked, and again in %v, want %v", c.topics, c.partitions, c.state, len(topics), time.Until(k.next), c.next)
			}
		})
	}
}

// A caller that always finds jobs is in no list. What it believes to be empty is checked all the same, and polled once a check finds jobs.
func TestChecksForABusyCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := inHand(t)
		h.registered("t", "u").leaves(store.ErrEmpty)
		for range 3 {
			time.Sleep(lingerFor - 1)
			h.waiter("new", "t", "u")
			h.answer(h.expectAsks("those that are not known", "new"), store.Popped{Jobs: jobs("new", 1)}, nil)
			if topics := newChecks(h.listener).due(); len(topics) != 2 {
				t.Fatalf("%d topics are checked, want t and u", len(topics))
			}
		}
		h.finds(h.listener.question([]*readyQueue{h.ready("t"), h.ready("u")}), true, map[string]int{"u": 1})
		h.waiter("t", "u")
		h.expectAsks("the one that a check has found", "u")
	})
}

// A topic whose registration is lost is checked at once.
func TestUnregisteredTopicIsChecked(t *testing.T) {
	h := inHands(t, 2)
	h.registered("t", "u")
	h.check(true, nil)
	lost := h.all[1].ready("u")
	lost.unheard()
	lost.goOn()
	if topics := h.listener.news(); !slices.Equal(topics, []*readyQueue{lost}) {
		t.Errorf("%d topics are checked", len(topics))
	}
}

// A refused subscription is retried after a while, or when the Client requests it.
func TestSubscribeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := inHand(t)
		k := newChecks(h.listener)
		time.Sleep(subscribeAgain)
		if k.subscribes() {
			t.Error("though it is subscribed")
		}
		h.listener.state = refused
		if !k.subscribes() || k.subscribes() {
			t.Error("not once, when it was long ago")
		}
		time.Sleep(subscribeAgain - 1)
		if k.subscribes() {
			t.Error("too early")
		}
		h.SubscribeAgain()
		if !k.subscribes() || k.subscribes() {
			t.Error("not once, when it is told to")
		}
	})
}

// If a check finds jobs of several topics, a caller polls for the first of them.
func TestCheckKeepsTheOrderOfTopics(t *testing.T) {
	for range 20 {
		h := inHand(t)
		h.registered("a", "b", "c", "d")
		h.check(true, map[string]int{"b": 1, "c": 1, "d": 1})
		if one := h.asks(); one.Topics[0] != "b" {
			t.Fatalf("%s is polled first", one.Topics)
		}
	}
}
