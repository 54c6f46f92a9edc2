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

// knows has a caller probe the topics, and finds so many jobs of each in the partitions. It gets nothing.
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

// expectAsks checks which topics of which partition are asked for, without a probe.
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

// expectSurvey checks that all partitions are looked at, and finds them empty.
func (h *hand) expectSurvey(what string, registers bool) {
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

// A caller asks the partition that has the earliest topic, for all topics that this is believed to have, in one poll. If several have
// that topic their turns come.
func TestAim(t *testing.T) {
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
}

// A poll is of topics that are taken in one way. Those between them are left to the next caller.
func TestAimOfOneKind(t *testing.T) {
	h := inHands(t, 2)
	h.knows(abc, map[readyQueue]int{{h.s, "a"}: 1, {h.s, "b"}: 1, {h.s, "c"}: 1})
	long := Kind{Reserves: true, Reservation: store.Reservation{Lease: time.Hour}}
	r := Request{Topics: abc, N: 3, Kinds: []Kind{{Reserves: true}, long, {Reserves: true}}}
	h.joins(r)
	h.expectAsks("of one kind", h.s, "a", "c")
	h.joins(r)
	h.expectAsks("of the other kind", h.s, "b")
}

// Who finds nothing where jobs were believed to be asks the next partition, and at last probes all of them, and registers: nobody
// rests while there is a job.
func TestAimMissed(t *testing.T) {
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
	h.expectSurvey("at last", true)
	g.expectWaits(t)
	if !g.waits() || len(h.aimed) > 0 {
		t.Error("it does not wait everywhere")
	}
	h.partitions[1].wake("c", 1)
	h.answer(h.asks(), store.Popped{Jobs: jobs("c", 1)}, nil)
	g.expectJob(t, "c1")
}

// What goes the full way: topics that are not all known, an error, a node that is away, and what was believed for long or for many jobs.
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

// An error of an aimed poll is no reason to give up: the other partitions may have jobs. What is lost with it is told in the end.
func TestAimedTakeFails(t *testing.T) {
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
}

// A wake-up that finds nobody is passed on, and remembered: the next caller asks there.
func TestWakeUpIsBelieved(t *testing.T) {
	h := inHands(t, 3)
	h.knows(abc, nil)
	h.partitions[1].wake("b", 1)
	h.waiter(abc...)
	one := h.expectAsks("woken", h.partitions[1], "b")
	if one.Waiter == "" {
		t.Error("it does not register though it knows of nothing else")
	}
	h.expectPassed("nobody was there", "b")
}

// Who asks for a topic that its limit has held back registers, so that it is told when the limit lets it go on.
func TestAimAtALimitedTopic(t *testing.T) {
	h := inHands(t, 2)
	h.knows(abc, map[readyQueue]int{{h.partitions[0], "a"}: 5, {h.partitions[1], "b"}: 5})
	h.turn = 0
	r := Request{Topics: abc, N: 1, Waits: true, Kind: Kind{Reserves: true}}
	g := h.joins(r)
	held := func(one *poll) store.Popped {
		return store.Popped{Held: []time.Duration{store.Woken}, Entered: one.Waiter != ""}
	}
	one := h.expectAsks("limited", h.partitions[0], "a")
	h.answer(one, held(one), nil)
	one = h.expectAsks("limited, as is known now", h.partitions[0], "a")
	if one.Waiter == "" {
		t.Fatal("it does not register")
	}
	h.answer(one, held(one), nil)
	h.answer(h.expectAsks("the others", h.partitions[1], "b"), store.Popped{Jobs: jobs("b", 1), Remaining: []int{4}}, nil)
	g.expectJob(t, "b1")
	h.partitions[0].wake("a", 1)
	h.joins(r)
	h.expectAsks("once it goes on", h.partitions[0], "a")
}

// Close ends who asks one partition, and who leaves gets the job that a poll brings it.
func TestEndOfAnAimedCaller(t *testing.T) {
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
}

// What nobody asks for any more is forgotten; of one partition nothing is kept.
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

// Clients don't all begin with the same partition.
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
