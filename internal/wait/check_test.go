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
				h.topics["u"].unheard()
			}
			h.listener.state, h.listener.lastHit = c.state, time.Now().Add(-c.found)
			now := time.Now()
			for next, want := range map[time.Duration]time.Duration{-time.Second: c.want, time.Hour: c.want, 0: c.want, 10 * time.Millisecond: 10 * time.Millisecond} {
				k := &checks{listener: h.listener, next: now.Add(next), served: c.served, checked: now}
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
	if got := h.listener.news(); len(got) != 1 || got[0].name != "t" {
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
		if most := int(time.Since(began)/servedEvery) + 1; k.served || asked < 2 || asked > most {
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
			h.listener.renew = true
			k := newChecks(h.listener)
			in := time.Until(k.next)
			if in > checkEvery || in < 0 || h.listener.renew || h.listener.lastHit != k.began || k.asked != k.began {
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

// Of one partition, where a server of the original may run, all topics with callers are checked together. Without a subscription, they take turns
// within checkEvery, and those of several partitions within slowCheck.
func TestTopicsThatAreDue(t *testing.T) {
	for _, c := range []struct {
		partitions, topics int
		state              listenerState
		turns              []int
	}{
		{1, 3, subscribed, []int{3, 3}},
		{1, checkAtOnce + 3, subscribed, []int{checkAtOnce + 3, checkAtOnce + 3}},
		{1, 3, refused, []int{3, 3}},
		{1, pollAtOnce + 3, refused, []int{pollAtOnce, 3, pollAtOnce, 3}},
		{1, 30 * pollAtOnce, refused, append(slices.Repeat([]int{376}, 19), 30*pollAtOnce-19*376, 376)},
		{2, 3, subscribed, []int{6, 6}},
		{2, checkAtOnce/2 + 100, subscribed, []int{checkAtOnce, 200, checkAtOnce}},
		{2, 6 * checkAtOnce, subscribed, append(slices.Repeat([]int{1201}, 9), 12*checkAtOnce-9*1201, 1201)},
	} {
		h := inHands(t, c.partitions)
		for n := range c.topics {
			topic := fmt.Sprint(n)
			g := &guest{Caller: h.shared.NewCaller(Request{Topics: []string{topic}, N: 1, Waits: true}), h: h}
			g.enter(nil, h.all)
			for _, p := range h.all {
				if c.state == subscribed {
					p.topics[topic].empty()
				}
			}
		}
		h.registered("gone").leaves(store.ErrEmpty)
		h.topics["gone"].left = time.Now().Add(-lingerFor)
		h.listener.state = c.state
		k := newChecks(h.listener)
		var got []int
		seen := map[*topic]bool{}
		for range c.turns {
			topics := k.due()
			got = append(got, len(topics))
			for _, t := range topics {
				seen[t] = true
			}
		}
		if !slices.Equal(got, c.turns) || len(seen) != c.partitions*c.topics || h.topics["gone"] != nil {
			t.Errorf("%d topics of %d partitions, state %d: %v, want %v; %d in all", c.topics, c.partitions, c.state, got, c.turns, len(seen))
		}
	}
}

// While topics take turns, each part has its turn after checkEvery, and those without a registration are checked every time, in one call
// with the others of their partition.
func TestUnregisteredTopicsHaveEveryTurn(t *testing.T) {
	h := inHands(t, 2)
	for n := range checkAtOnce {
		h.waiter(fmt.Sprint(n))
	}
	h.settle()
	h.check(true, nil)
	k := newChecks(h.listener)
	h.listener.lastHit, k.served, k.checked = time.Time{}, true, time.Now()
	lost := h.all[1].topics["7"]
	lost.unheard()
	for range 4 {
		topics := k.due()
		if !slices.Contains(topics, lost) {
			t.Error("one for which nobody wakes us is not checked")
		}
		if q := h.listener.question(topics); len(q) > 2 {
			t.Errorf("%d calls for two partitions", len(q))
		}
		k.next = time.Time{}
		if k.plan(); time.Until(k.next) > checkEvery {
			t.Errorf("the next part has its turn in %v", time.Until(k.next))
		}
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
