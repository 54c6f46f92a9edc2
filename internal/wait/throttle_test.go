package wait

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// throttledReply is a reply that throttles queues for the given times, 0 for none.
func throttledReply(d ...time.Duration) store.Popped {
	return store.Popped{Registered: true, Throttled: d}
}

// notRegistered returns the reply without a registration.
func notRegistered(p store.Popped) store.Popped {
	p.Registered = false
	return p
}

// reserver is a waiter that reserves, so that limits apply to it.
func (h *hand) reserver(topics ...string) *guest {
	h.t.Helper()
	return h.joins(Request{Topics: topics, N: 1, Waits: true, Kind: Kind{Reserves: true}})
}

// A throttled queue is polled again at the time given by the limit, or when a wake-up may have been lost, and
// not earlier.
func TestThrottledQueues(t *testing.T) {
	for name, c := range map[string]struct {
		told       store.Popped
		soon, late time.Duration
	}{
		"a while":                 {throttledReply(300 * time.Millisecond), 299 * time.Millisecond, 301 * time.Millisecond},
		"until it is woken":       {throttledReply(store.Woken), throttledFor/2 - 1, throttledFor * 3 / 2},
		"for long":                {throttledReply(time.Hour), throttledFor/2 - 1, throttledFor * 3 / 2},
		"a while, and no waiter":  {notRegistered(throttledReply(300 * time.Millisecond)), 299 * time.Millisecond, 301 * time.Millisecond},
		"for long, and no waiter": {notRegistered(throttledReply(time.Hour)), checkEvery - 1, checkEvery + 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := inHand(t)
				g := h.reserver("t")
				h.answer(h.asks(), c.told, nil)
				h.reserver("t") // a later caller sends no poll
				time.Sleep(c.soon)
				synctest.Wait()
				if h.asks() != nil {
					t.Error("it is asked too early")
				}
				time.Sleep(c.late - c.soon)
				synctest.Wait()
				h.answer(h.asks(), store.Popped{Registered: true, Jobs: jobs("t", 1)}, nil)
				g.expectJob(t, "t1")
			})
		})
	}
}

// A caller that pops without waiting, behind a reserve that was throttled, is polled for: that reserve says nothing about jobs to pop,
// whether or not it has registered us.
func TestPopBehindAThrottledReserve(t *testing.T) {
	for name, reply := range map[string]store.Popped{
		"registered": throttledReply(store.Woken), "not registered": notRegistered(throttledReply(store.Woken)),
		"for a time": throttledReply(time.Hour), "for a time, not registered": notRegistered(throttledReply(time.Hour)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := inHand(t)
				h.reserver("t")
				pops := h.joins(Request{Topics: []string{"t"}, N: 1})
				h.answer(h.asks(), reply, nil)
				pops.expectWaits(t)
				h.answer(h.asks(), store.Popped{Registered: true, Jobs: jobs("t", 1), Remaining: []int{1}}, nil)
				pops.expectJob(t, "t1")
			})
		})
	}
}

// Callers that pop are served while others are throttled, even if they waited behind them.
func TestThrottledQueueIsPopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := inHand(t)
		first := h.reserver("t")
		reserve := h.asks()
		behind := h.waiter("t")
		h.answer(reserve, throttledReply(store.Woken), nil)
		pop := h.asks()
		if pop == nil || pop.Reserves {
			t.Fatalf("asked is %+v, want a pop", pop)
		}
		h.answer(pop, store.Popped{Registered: true, Jobs: jobs("t", 1), Remaining: []int{1}}, nil)
		behind.expectJob(t, "t1")
		if next := h.asks(); next != nil {
			t.Errorf("asked is %+v, as if it were not held", next)
		}
		later := h.waiter("t")
		h.answer(h.asks(), store.Popped{Registered: true, Remaining: []int{0}}, nil)
		later.expectWaits(t)
		first.expectWaits(t)
		if got := h.stateOf("t"); got != "registered" {
			t.Errorf("the queue is %s, though its queue is empty", got)
		}
	})
}

// A throttled caller that does not wait gets an empty result. A caller that pops is served.
func TestThrottledIsNotEmpty(t *testing.T) {
	h := inHand(t)
	reserves := h.joins(Request{Topics: []string{"t"}, N: 1, Kind: Kind{Reserves: true}})
	pops := h.joins(Request{Topics: []string{"t"}, N: 1})
	h.answer(h.asks(), throttledReply(store.Woken), nil)
	reserves.expectErr(t, store.ErrEmpty)
	h.answer(h.asks(), store.Popped{Jobs: jobs("t", 1), Remaining: []int{0}}, nil)
	pops.expectJob(t, "t1")
}

// A queue without a registration is not throttled: a check finds the jobs and polls.
func TestThrottledWithoutWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := inHand(t)
		h.reserver("t")
		h.answer(h.asks(), notRegistered(throttledReply(store.Woken)), nil)
		h.check(true, map[string]int{"t": 1})
		if h.asks() == nil {
			t.Error("it is not asked")
		}
	})
}

// A wake-up makes a throttled queue poll at once and ends the throttling. A check does not.
func TestThrottledQueueIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := inHand(t)
		g := h.reserver("t")
		h.answer(h.asks(), throttledReply(store.Woken), nil)
		h.check(true, map[string]int{"t": 1})
		if h.asks() != nil {
			t.Fatal("a check has it asked")
		}
		h.s.wake("t", 1)
		h.answer(h.asks(), store.Popped{Registered: true}, nil)
		g.expectWaits(t)
		time.Sleep(2 * throttledFor)
		synctest.Wait()
		if h.asks() != nil {
			t.Error("it is asked when its time would have been over")
		}
	})
}

// A message that arrived while the poll was in flight is newer than its reply.
func TestWokenBeforeItIsThrottled(t *testing.T) {
	h := inHand(t)
	h.reserver("t")
	one := h.asks()
	h.s.wake("t", 1)
	h.answer(one, throttledReply(store.Woken), nil)
	if h.asks() == nil {
		t.Error("it is not asked")
	}
}

// Throttled topics among several are not polled, except for a caller that does not wait.
func TestThrottledAmongSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := inHand(t)
		h.reserver("t", "u")
		h.answer(h.asks(), throttledReply(store.Woken, 0), nil)
		if got := h.stateOf("t") + h.stateOf("u"); got != "throttledregistered" {
			t.Errorf("they are %s", got)
		}
		h.reserver("t", "new")
		if one := h.asks(); one == nil || len(one.queues) != 1 || one.queues[0].topic != "new" {
			t.Errorf("asked are %v", one)
		}
		h.joins(Request{Topics: []string{"t", "u"}, N: 1, Kind: Kind{Reserves: true}})
		if one := h.asks(); one == nil || len(one.queues) != 2 {
			t.Errorf("asked are %v by one who does not wait", one)
		}
	})
}

// A wake-up for a throttled queue without callers is passed on, because another client can use the slot. A wake-up after
// the throttling has ended is passed on, too.
func TestThrottledQueueIsLeft(t *testing.T) {
	for name, after := range map[string]time.Duration{"at once": 0, "when its time is over": 2 * throttledFor} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := inHand(t)
				g := h.reserver("t")
				h.answer(h.asks(), throttledReply(store.Woken), nil)
				h.leave(g.caller, store.ErrEmpty)
				time.Sleep(after)
				synctest.Wait()
				if h.asks() != nil {
					t.Error("nobody wants it, and it is asked")
				}
				if known := h.s.queues["t"] != nil; known != (after == 0) {
					t.Errorf("something is known of the queue: %v", known)
				}
				h.s.wake("t", 1)
				h.expectPassed("the wake-up", "t")
			})
		})
	}
}

// When a subscription ends, throttled queues are polled again and their registrations are removed.
func TestThrottledWhenTheSubscriptionEnds(t *testing.T) {
	h := inHand(t)
	h.reserver("t")
	h.answer(h.asks(), throttledReply(store.Woken), nil)
	if isListed := h.s.listener.close(); len(isListed[h.s]) != 1 || h.s.queues["t"].throttle != nil {
		t.Errorf("taken out of %v, and held %v", isListed[h.s], h.s.queues["t"].throttle)
	}
}

// A caller that does not wait learns at once, from Redis, that a throttled topic has no job for it.
func TestNotWaitingForAThrottledTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := inHand(t)
		h.reserver("t")
		h.answer(h.asks(), throttledReply(store.Woken), nil)
		asks := h.joins(Request{Topics: []string{"t"}, N: 1, Kind: Kind{Reserves: true}})
		h.answer(h.asks(), throttledReply(store.Woken), nil)
		asks.expectErr(t, store.ErrEmpty)
		if h.asks() != nil {
			t.Error("it is polled for the one who waits, too")
		}
	})
}
