package wait

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// Callers of one topic are served in the order of their arrival, also by polls for fewer jobs than there are
// callers. Claimed callers are skipped.
func TestCallersInOrder(t *testing.T) {
	h := inHand(t)
	var guests []*guest
	for range 5 {
		guests = append(guests, h.waiter("t"))
	}
	one := h.asks()
	if one.N != 5 || len(one.claims) != 5 || one.limit(0) != 5 || h.asks() != nil {
		t.Fatalf("the poll is for %d jobs of %d callers", one.N, len(one.claims))
	}
	h.answer(one, store.Popped{Jobs: jobs("t", 2), Registered: true}, nil)
	guests[0].expectJob(t, "t1")
	guests[1].expectJob(t, "t2")
	guests[2].expectWaits(t)
	h.s.wake("t", 2)
	if one = h.asks(); one.N != 2 || one.claims[0].caller != guests[2].caller {
		t.Fatalf("the poll is for %d jobs, the first of its callers is the third: %v", one.N, one.claims[0].caller == guests[2].caller)
	}
	h.leave(guests[2].caller, store.ErrEmpty) // claimed: it gets the result in flight
	h.answer(one, store.Popped{Jobs: jobs("t", 1), Registered: true}, nil)
	guests[2].expectJob(t, "t1")
	guests[3].expectWaits(t)
	h.leave(guests[3].caller, store.ErrEmpty)
	guests[3].expectErr(t, store.ErrEmpty)
	h.s.wake("t", 9)
	h.answer(h.asks(), store.Popped{Jobs: jobs("t", 1), Registered: true}, nil)
	guests[4].expectJob(t, "t1")
	h.s.Waiting() // starts its turn
	if l := h.s.queues["t"]; l != nil {
		t.Errorf("a queue that nobody waits in, and that we are not isListed for, is kept: %+v", l)
	}
}

// When a caller leaves, the others keep their order.
func TestLeavingAQueue(t *testing.T) {
	for gone := range 3 {
		h := inHand(t)
		guests := []*guest{h.waiter("t"), h.waiter("t"), h.waiter("t")}
		h.settle()
		h.leave(guests[gone].caller, store.ErrEmpty)
		guests[gone].expectErr(t, store.ErrEmpty)
		guests = append(slices.Delete(guests, gone, gone+1), h.waiter("t"))
		h.s.wake("t", 3)
		h.answer(h.asks(), store.Popped{Jobs: jobs("t", 3)}, nil)
		for i, g := range guests {
			g.expectJob(t, fmt.Sprint("t", i+1))
		}
	}
}

// A poll takes jobs in one mode, the first caller's. Callers with another mode are served by the
// next poll.
func TestKindsOfAQueue(t *testing.T) {
	h := inHand(t)
	pops := Request{Topics: []string{"t"}, N: 1, Waits: true}
	reserves := pops
	reserves.Kind = Kind{Reserves: true, Reservation: store.Reservation{Lease: time.Minute}}
	a, b, c := h.joins(pops), h.joins(reserves), h.joins(pops)
	first := h.asks()
	if first.Reserves || len(first.claims) != 2 || first.claims[1].caller != c.caller {
		t.Fatalf("%+v", first)
	}
	h.answer(first, store.Popped{Jobs: jobs("t", 2), Remaining: []int{1}}, nil)
	a.expectJob(t, "t1")
	c.expectJob(t, "t2")
	second := h.asks()
	if second.Kind != reserves.Kind || second.claims[0].caller != b.caller {
		t.Fatalf("%+v", second)
	}
	leases := []store.Lease{{Token: 7}}
	second.sentAt = time.Unix(5, 0)
	h.answer(second, store.Popped{Jobs: jobs("t", 1), Leases: leases}, nil)
	if got := (<-b.answers).Jobs; len(got.Leases) != 1 || got.Leases[0] != leases[0] || got.AskedAt != second.sentAt {
		t.Errorf("%+v", got)
	}
}

// A caller of several jobs gets all available jobs up to its limit.
func TestCallersWantSeveral(t *testing.T) {
	h := inHand(t)
	r := Request{Topics: []string{"t"}, N: 3, Waits: true}
	a, b, c := h.joins(r), h.joins(r), h.joins(r)
	one := h.asks()
	if one.N != 9 {
		t.Fatalf("the poll is for %d jobs", one.N)
	}
	h.answer(one, store.Popped{Jobs: jobs("t", 5), Leases: make([]store.Lease, 5)}, nil)
	for i, g := range []*guest{a, b} {
		got := (<-g.answers).Jobs
		if want := 3 - i; len(got.Jobs) != want || len(got.Leases) != want || got.Jobs[0].ID != fmt.Sprint("t", 3*i+1) {
			t.Errorf("%+v", got)
		}
	}
	c.expectWaits(t)
}

// A poll wants as many jobs as the queue probably has, or MaxPop if a caller needs to learn whether there is
// one.
func TestWantedByAQueue(t *testing.T) {
	h := inHand(t)
	for range store.MaxPop + 10 {
		h.waiter("t")
	}
	if one := h.asks(); one.N != store.MaxPop || len(one.claims) != store.MaxPop || one.limit(0) != store.MaxPop {
		t.Errorf("%d jobs for %d callers", one.N, len(one.claims))
	} else {
		h.answer(one, store.Popped{Registered: true}, nil)
	}
	h.settle()
	for _, ready := range []int{1, 3} {
		h.s.wake("t", ready)
		if one := h.asks(); one.N != ready {
			t.Errorf("%d jobs are asked for, want %d", one.N, ready)
		} else {
			h.answer(one, store.Popped{Registered: true}, nil)
		}
	}
	h.s.wake("t", 3)
	h.joins(Request{Topics: []string{"t"}, N: 1})
	if one := h.asks(); one.N != store.MaxPop {
		t.Errorf("%d jobs are asked for though somebody asks", one.N)
	}
	wide := inHand(t)
	wide.joins(Request{Topics: []string{"t"}, N: store.MaxPop - 1, Waits: true})
	wide.joins(Request{Topics: []string{"t"}, N: store.MaxPop, Waits: true})
	if one := wide.asks(); one.N != store.MaxPop || len(one.claims) != 2 {
		t.Errorf("%d jobs for %d callers", one.N, len(one.claims))
	}
}

// A caller that does not wait, behind callers that wait, learns that there is no job from a poll sent after it
// arrived.
func TestPollingBehindOthers(t *testing.T) {
	h := inHand(t)
	ahead := h.waiter("t")
	first := h.asks()
	asks := h.joins(Request{Topics: []string{"t"}, N: 1})
	h.answer(first, store.Popped{}, nil) // sent before it arrived
	asks.expectWaits(t)
	h.answer(h.asks(), store.Popped{Jobs: jobs("t", 1)}, nil)
	ahead.expectJob(t, "t1")
	asks.expectErr(t, store.ErrEmpty)

	for range store.MaxPop {
		h.waiter("u")
	}
	asks = h.joins(Request{Topics: []string{"u"}, N: 1})
	one := h.asks()
	if slices.ContainsFunc(one.claims, func(c claim) bool { return c.caller == asks.caller }) {
		t.Fatal("the poll is for him, too")
	}
	h.answer(one, store.Popped{}, errBroken) // the caller gets this error
	asks.expectErr(t, errBroken)
	for range store.MaxPop {
		h.waiter("v")
	}
	asks = h.joins(Request{Topics: []string{"v"}, N: 1})
	h.answer(h.asks(), store.Popped{Jobs: jobs("v", store.MaxPop)}, nil)
	asks.expectWaits(t)
	if one = h.asks(); one == nil || one.claims[0].caller != asks.caller {
		t.Fatalf("he is not asked for once it is his turn: %+v", one)
	}
	h.joins(Request{Topics: []string{"u"}, N: 1})
	if h.asks() == nil {
		t.Fatal("he is not asked for")
	}
}

// Queues without callers are kept for a while, because the client may still be woken for them, and then dropped.
// A wake-up for such a queue is passed on.
func TestForget(t *testing.T) {
	h := inHand(t)
	for _, topic := range []string{"waited", "left", "left lately", "polling", "queued"} {
		g := h.waiter(topic)
		h.settle()
		switch topic {
		case "polling":
			h.s.wake(topic, 1)
			h.asks()
		case "queued":
			h.s.wake(topic, 1)
			h.leave(g.caller, store.ErrEmpty)
		case "left", "left lately":
			h.leave(g.caller, store.ErrEmpty)
		}
		if topic != "left lately" {
			h.s.queues[topic].left = time.Now().Add(-lingerFor)
		}
	}
	h.passed()
	h.mu.Lock()
	h.s.forget(lingerFor)
	h.mu.Unlock()
	for topic, want := range map[string]bool{"waited": true, "left": false, "left lately": true, "polling": true, "queued": true} {
		if got := h.s.queues[topic] != nil; got != want {
			t.Errorf("%s: known %v", topic, got)
		}
	}
	h.s.wake("left", 1)
	h.s.wake("left lately", 1)
	h.expectPassed("forgotten, and without callers", "left", "left lately")
	if h.s.queues["left"] != nil {
		t.Error("what is passed on is known")
	}
	if h.asks() != nil || h.s.queues["queued"] != nil {
		t.Error("a queue without callers is asked, or kept for ever")
	}
}
