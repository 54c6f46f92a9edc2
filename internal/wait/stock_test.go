package wait

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// knows makes a caller probe the topics. The probe finds the given numbers of jobs, and the caller gets none.
func (h *hand) knows(topics []string, found map[readyQueue]int) {
	h.t.Helper()
	g := h.joins(Request{Topics: topics, N: 1})
	for _, n := range h.nodes {
		for _, s := range h.probesOf(n) {
			lengths := map[string]int{}
			for _, topic := range topics {
				lengths[topic] = found[readyQueue{s.partition, topic}]
			}
			h.finds(s, true, lengths, nil)
		}
	}
	h.leave(g.caller, context.Canceled)
}

// expectAsks checks which topics of which partition are polled without a probe.
func (h *hand) expectAsks(what string, s *partition, topics ...string) *poll {
	h.t.Helper()
	for _, n := range h.nodes {
		if len(n.probes) > 0 {
			h.t.Fatalf("%s: there is a probe", what)
		}
	}
	one := h.asksOf(s.node)
	if one == nil || one.partition != s || !slices.Equal(one.topics(), topics) {
		h.t.Fatalf("%s: want a poll of %q of partition %d, got %+v", what, topics, s.index, one)
	}
	return one
}

// expectProbe checks that all partitions are probed, and reports them as empty.
func (h *hand) expectProbe(what string, registers bool) {
	h.t.Helper()
	seen := 0
	for _, n := range h.nodes {
		for _, s := range h.probesOf(n) {
			seen++
			if got := s.check != nil && s.check.Since[0] >= 0; got != registers {
				h.t.Errorf("%s: the probe registers: %v", what, got)
			}
			h.finds(s, true, nil, nil)
		}
	}
	if seen != len(h.partitions) {
		h.t.Fatalf("%s: %d of %d partitions are probed", what, seen, len(h.partitions))
	}
}

var abc = []string{"a", "b", "c"}

// A caller polls the partition that has its earliest topic, for all topics that this partition probably has, in one poll.
// Partitions that share the earliest topic take turns.
func TestAim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := inHands(t, 3)
		h.knows(abc, map[readyQueue]int{{h.partitions[1], "c"}: 5, {h.partitions[2], "b"}: 1, {h.partitions[2], "c"}: 5})
		h.turn = 0
		g := h.joins(Request{Topics: abc, N: 3, Waits: true})
		one := h.expectAsks("the earliest topic", h.partitions[2], "b", "c")
		second := h.joins(Request{Topics: abc, N: 3})
		next := h.expectAsks("what the first one leaves", h.partitions[1], "c")
		h.answer(one, store.Popped{Jobs: append(jobs("b", 1), jobs("c", 2)...), Remaining: []int{0, -1, -1}}, nil)
		if a := <-g.answers; len(a.Jobs.Jobs) != 3 {
			t.Errorf("%+v", a)
		}
		h.answer(next, store.Popped{Jobs: jobs("c", 3), Remaining: []int{-1}}, nil)
		if a := <-second.answers; len(a.Jobs.Jobs) != 3 {
			t.Errorf("%+v", a)
		}
		served := map[*partition]bool{}
		for range 2 {
			g := h.joins(Request{Topics: abc, N: 1})
			one := h.asks()
			served[one.partition] = true
			h.answer(one, store.Popped{Jobs: jobs("c", 1), Remaining: []int{-1}}, nil)
			g.expectJob(t, "c1")
		}
		if len(served) != 2 {
			t.Errorf("both partitions have c, and one is asked twice")
		}
	})
}

// A poll has topics that are taken in the same mode. Topics in between are left to the next caller.
func TestAimOfOneKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := inHands(t, 2)
		h.knows(abc, map[readyQueue]int{{h.s, "a"}: 1, {h.s, "b"}: 1, {h.s, "c"}: 1})
		long := Kind{Reserves: true, Reservation: store.Reservation{Lease: time.Hour}}
		r := Request{Topics: abc, N: 3, Kinds: []Kind{{Reserves: true}, long, {Reserves: true}}}
		h.joins(r)
		h.expectAsks("of one kind", h.s, "a", "c")
		h.joins(r)
		h.expectAsks("of the other kind", h.s, "b")
	})
}

// A caller that misses polls the next partition that probably has jobs, and finally probes all and registers: no caller
// waits while there is a job.
func TestAimMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := inHands(t, 2, 1)
		h.knows(abc, map[readyQueue]int{{h.partitions[0], "a"}: 1, {h.partitions[2], "b"}: 1, {h.partitions[2], "c"}: 1})
		h.turn = 0
		g := h.waiter(abc...)
		one := h.expectAsks("the first", h.partitions[0], "a")
		if one.Waiter != "" {
			t.Error("it registers though there are jobs elsewhere")
		}
		h.answer(one, store.Popped{}, nil)
		one = h.expectAsks("the second", h.partitions[2], "b", "c")
		h.answer(one, store.Popped{}, nil)
		g.expectWaits(t)
		h.expectProbe("at last", true)
		g.expectWaits(t)
		if !g.waits() || len(h.aimed) > 0 {
			t.Error("it does not wait everywhere")
		}
		h.partitions[1].wake("c", 1)
		h.answer(h.asks(), store.Popped{Jobs: jobs("c", 1)}, nil)
		g.expectJob(t, "c1")
	})
}

// Callers probe all partitions if a topic is unknown, after an error, if a node is down, if the counts are old, or if many jobs
// were taken.
func TestFullWay(t *testing.T) {
	for name, c := range map[string]struct {
		topics []string
		before func(h *hand)
	}{
		"another topic":       {[]string{"a", "d"}, func(*hand) {}},
		"a node that is away": {abc, func(h *hand) { h.nodes[1].setAway(true) }},
		"for long":            {abc, func(*hand) { time.Sleep(time.Minute) }},
		"for many jobs":       {abc, func(h *hand) { h.stock.taken += 1000 }},
		"an error": {abc, func(h *hand) {
			g := h.joins(Request{Topics: abc, N: 1})
			h.answer(h.asks(), store.Popped{}, errCut)
			h.leave(g.caller, errCut)
		}},
		"nothing but old news": {abc, func(h *hand) { h.stock.set(h.partitions[0].queue("a"), 0) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := inHands(t, 1, 1)
				h.knows(abc, map[readyQueue]int{{h.partitions[0], "a"}: 5})
				g := h.joins(Request{Topics: abc, N: 1})
				h.answer(h.expectAsks("before", h.partitions[0], "a"), store.Popped{Jobs: jobs("a", 1), Remaining: []int{4}}, nil)
				g.expectJob(t, "a1")
				c.before(h)
				h.joins(Request{Topics: c.topics, N: 1})
				if len(h.probesOf(h.nodes[0])) == 0 || len(h.probesOf(h.nodes[1])) == 0 {
					t.Error("there is no probe")
				}
			})
		})
	}
}

// After an error an aimed caller continues, because other partitions may have jobs. A possible loss is reported
// at the end.
func TestAimedTakeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, has := range []bool{true, false} {
			h := inHands(t, 1, 1)
			h.knows(abc, map[readyQueue]int{{h.partitions[0], "a"}: 1})
			h.turn = 0
			g := h.joins(Request{Topics: abc, N: 1})
			h.answer(h.expectAsks("aimed", h.partitions[0], "a"), store.Popped{}, fmt.Errorf("%w: %w", ErrLost, errCut))
			ready := map[readyQueue]int{}
			if has {
				ready[readyQueue{h.partitions[1], "b"}] = 1
			}
			h.run(ready)
			if has {
				g.expectJob(t, "b1")
			} else {
				g.expectErr(t, ErrLost)
			}
		}
	})
}

// A wake-up without a caller is passed on and remembered: the next caller polls that partition
// first.
func TestWakeUpIsBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := inHands(t, 3)
		h.knows(abc, nil)
		h.partitions[1].wake("b", 1)
		h.waiter(abc...)
		one := h.expectAsks("woken", h.partitions[1], "b")
		if one.Waiter == "" {
			t.Error("it does not register though it knows of nothing else")
		}
		h.expectPassed("nobody was there", "b")
	})
}

// A caller of a throttled topic registers, so that it is woken when the limit allows more.
func TestAimAtALimitedTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := inHands(t, 2)
		h.knows(abc, map[readyQueue]int{{h.partitions[0], "a"}: 5, {h.partitions[1], "b"}: 5})
		h.turn = 0
		r := Request{Topics: abc, N: 1, Waits: true, Kind: Kind{Reserves: true}}
		g := h.joins(r)
		throttled := func(one *poll) store.Popped {
			return store.Popped{Throttled: []time.Duration{store.Woken}, Registered: one.Waiter != ""}
		}
		one := h.expectAsks("limited", h.partitions[0], "a")
		h.answer(one, throttled(one), nil)
		one = h.expectAsks("limited, as is known now", h.partitions[0], "a")
		if one.Waiter == "" {
			t.Fatal("it does not register")
		}
		h.answer(one, throttled(one), nil)
		h.answer(h.expectAsks("the others", h.partitions[1], "b"), store.Popped{Jobs: jobs("b", 1), Remaining: []int{4}}, nil)
		g.expectJob(t, "b1")
		h.partitions[0].wake("a", 1)
		h.joins(r)
		h.expectAsks("once it goes on", h.partitions[0], "a")
	})
}

// Close ends aimed callers. An aimed caller that leaves still gets the job of the poll in flight.
func TestEndOfAnAimedCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := inHands(t, 2)
		h.knows(abc, map[readyQueue]int{{h.partitions[0], "a"}: 5})
		g, closed := h.waiter(abc...), h.waiter(abc...)
		one := h.asks()
		h.leave(g.caller, context.Canceled)
		h.answer(one, store.Popped{Jobs: jobs("a", 1), Remaining: []int{-1}}, nil)
		g.expectJob(t, "a1")
		h.Close()
		closed.expectErr(t, errClosed)
		if len(h.aimed) > 0 {
			t.Errorf("%d are left", len(h.aimed))
		}
	})
}

// Topics without callers are dropped. With one partition no counts are kept.
func TestStockIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := inHands(t, 2)
		h.knows([]string{"a", "b"}, map[readyQueue]int{{h.s, "a"}: 5})
		time.Sleep(keepTopic + time.Second)
		h.knows([]string{"c", "d"}, map[readyQueue]int{{h.s, "c"}: 2})
		if h.stock.of("a") != nil || h.stock.of("c") == nil || h.stock.jobs != 2 {
			t.Errorf("%+v", h.stock)
		}
		if inHand(t).stock != nil {
			t.Error("one partition has a stock")
		}
	})
}

// Clients start with different partitions.
func TestFirstTurn(t *testing.T) {
	first := map[int]bool{}
	for range 100 {
		h := inHands(t, 4)
		first[New(h.Dispatcher.closing, h.owner, h.hooks, h.partitions[0].store, h.partitions[1].store, h.partitions[2].store, h.partitions[3].store).turn] = true
	}
	if len(first) != 4 {
		t.Errorf("they begin with %v", first)
	}
}
