package wait

import (
	"fmt"
	"slices"
	"testing"

	"github.com/mix-basic/delayer/internal/store"
)

// A caller of several topics polls for itself, in the order of its topics. Each poll has topics of one mode and a limited number of
// queues.
func TestSeveralTopics(t *testing.T) {
	reserves, other := Kind{Reserves: true}, Kind{Reserves: true, Reservation: store.Reservation{MaxAttempts: 3}}
	many, pop := make([]string, 2*maxQueues+1), Kind{}
	for i := range many {
		many[i] = fmt.Sprint("t", i)
	}
	five := []string{"a", "b", "c", "d", "e"}
	for _, c := range []struct {
		topics []string
		kinds  []Kind
		want   [][]string
	}{
		{five, nil, [][]string{five}},
		{five, []Kind{reserves, reserves, pop, reserves, other}, [][]string{{"a", "b"}, {"c"}, {"d"}, {"e"}}},
		{many[:maxQueues], nil, [][]string{many[:maxQueues]}},
		{many, nil, [][]string{many[:maxQueues], many[maxQueues : 2*maxQueues], many[2*maxQueues:]}},
		{[]string{"b", "a", "a"}, nil, [][]string{{"b", "a"}}},
	} {
		for _, waits := range []bool{true, false} {
			h := inHand(t)
			g := h.joins(Request{Topics: c.topics, N: 1, Waits: waits, Kinds: c.kinds})
			for i, want := range c.want {
				one := h.asks()
				if one == nil || !slices.Equal(one.topics(), want) || &one.several.caller != g.caller || len(one.claims) != 1 {
					t.Fatalf("poll %d is %+v, want one of %q", i, one, want)
				}
				if kind := *g.kind(slices.Index(c.topics, want[0])); one.Kind != kind {
					t.Errorf("poll %d is of the kind %+v, want %+v", i, one.Kind, kind)
				}
				h.mu.Lock()
				g.expectWaits(t)
				h.mu.Unlock()
				h.answer(one, store.Popped{}, nil)
			}
			if h.asks() != nil {
				t.Error("it asks once more")
			}
			if waits {
				g.expectWaits(t)
				if g.lastErr != nil {
					t.Errorf("it knows that there is no job, and has the error %v", g.lastErr)
				}
			} else {
				g.expectErr(t, store.ErrEmpty)
			}
		}
	}
}

// Enough jobs from the first queues end the polling. An error ends it, too; a waiting caller tolerates the error.
func TestSeveralTopicsEndEarly(t *testing.T) {
	kinds := []Kind{{}, {Reserves: true}}
	join := func(h *hand, waits bool) *guest {
		return h.joins(Request{Topics: []string{"a", "b"}, N: 5, Waits: waits, Kinds: kinds})
	}
	h := inHand(t)
	g := join(h, true)
	h.answer(h.asks(), store.Popped{Jobs: jobs("a", 1)}, nil)
	g.expectJob(t, "a1")
	if h.asks() != nil {
		t.Error("it asks for more")
	}
	g = join(h, true)
	h.answer(h.asks(), store.Popped{}, errCut)
	g.expectWaits(t)
	if h.asks() != nil || g.lastErr != errCut {
		t.Errorf("it asks the other queue after an error; it knows of %v", g.lastErr)
	}
	h.s.wake("b", 1)
	h.answer(h.asks(), store.Popped{Jobs: jobs("b", 1)}, nil)
	g.expectJob(t, "b1")
	g = join(h, false)
	h.answer(h.asks(), store.Popped{}, errCut)
	g.expectErr(t, errCut)
	g = join(h, true)
	h.answer(h.asks(), store.Popped{}, errBroken)
	g.expectErr(t, errBroken)
	g = join(h, true)
	h.answer(h.asks(), store.Popped{More: true}, nil) // stopped early: there may be a job
	g.expectWaits(t)
	if one := h.asks(); one == nil || one.queues[0].topic != "a" {
		t.Errorf("what was not looked at to the end is not asked again: %+v", one)
	}
}

// Limits on the polled topics apply per topic and in total.
func TestLimits(t *testing.T) {
	h := inHand(t)
	g := h.joins(Request{Topics: []string{"a", "b", "c"}, N: 4, Waits: true, Limits: []int{1, 3, 9}})
	one := h.asks()
	if one.N != 4 || one.limit(0) != 1 || one.limit(1) != 3 || one.limit(2) != 4 {
		t.Fatalf("%+v", one.queues)
	}
	h.answer(one, store.Popped{Registered: true}, nil)
	for _, topic := range []string{"a", "b", "c"} {
		if got := h.stateOf(topic); got != "registered" {
			t.Errorf("%s is %s", topic, got)
		}
	}
	h.s.wake("b", 9)
	if one = h.asks(); one.N != 3 || one.limit(0) != 3 {
		t.Fatalf("%+v", one)
	}
	h.answer(one, store.Popped{Jobs: jobs("b", 3), Remaining: []int{6}}, nil)
	if got := (<-g.answers).Jobs.Jobs; len(got) != 3 {
		t.Errorf("got %+v", got)
	}
}

// After a poll of several queues, the queues before the job are known to be empty. The queues
// behind it stay unknown if the poll wanted no more jobs.
func TestLearnOfSeveral(t *testing.T) {
	for _, c := range []struct {
		name   string
		n      int
		limits []int
		popped store.Popped
		want   []string // of a, b, c
	}{
		{"none", 1, nil, store.Popped{Registered: true}, []string{"registered", "registered", "registered"}},
		{"none, and not entered", 1, nil, store.Popped{}, []string{"unknown", "unknown", "unknown"}},
		{"the second has one", 1, nil, store.Popped{Registered: true, Jobs: jobs("b", 1)}, []string{"registered", "unknown", "unknown"}},
		{"the second has more", 1, nil, store.Popped{Registered: true, Jobs: jobs("b", 1), Remaining: []int{0, 2, 0}}, []string{"registered", "ready", "unknown"}},
		{"fewer than were wanted", 3, nil, store.Popped{Registered: true, Jobs: slices.Concat(jobs("a", 1), jobs("c", 1))}, []string{"registered", "registered", "registered"}},
		{"as many as a limit", 3, []int{1, 3, 3}, store.Popped{Registered: true, Jobs: jobs("a", 1), Remaining: []int{4, 0, 0}}, []string{"ready", "registered", "registered"}},
		{"all from two", 3, nil, store.Popped{Registered: true, Jobs: slices.Concat(jobs("a", 1), jobs("b", 2)), Remaining: []int{0, 0, 0}}, []string{"registered", "unknown", "unknown"}},
	} {
		h := inHand(t)
		h.joins(Request{Topics: []string{"a", "b", "c"}, N: c.n, Waits: true, Limits: c.limits})
		one := h.asks()
		for _, topic := range []string{"a", "b", "c"} {
			h.waiter(topic) // keeps the queues
			h.s.queues[topic].pending = nil
		}
		h.s.turns = nil
		for _, l := range h.s.queues {
			l.queued = false
		}
		h.answer(one, c.popped, nil)
		for i, topic := range []string{"a", "b", "c"} {
			got := h.stateOf(topic)
			if got = got[:len(c.want[i])]; got != c.want[i] {
				t.Errorf("%s: %s is %s, want %s", c.name, topic, got, c.want[i])
			}
		}
	}
}

// A caller that joins a registered queue does not poll it, unless it does not wait. It polls its other queues.
func TestJoiningRegisteredQueues(t *testing.T) {
	h := inHand(t)
	h.waiter("t", "u")
	h.settle()
	g := h.waiter("t")
	if h.asks() != nil || g.lastErr != nil {
		t.Errorf("it asks, or would say %v", g.lastErr)
	}
	h.leave(g.caller, store.ErrEmpty)
	g.expectErr(t, store.ErrEmpty)
	h.waiter("u", "t")
	if h.asks() != nil {
		t.Error("one of two topics asks")
	}
	h.waiter("t", "new", "u")
	if one := h.asks(); !slices.Equal(one.topics(), []string{"new"}) {
		t.Errorf("%q are asked, want the one that is not known", one.topics())
	}
	g = h.joins(Request{Topics: []string{"u", "t"}, N: 1})
	if one := h.asks(); !slices.Equal(one.topics(), []string{"u", "t"}) {
		t.Errorf("%q are asked by one who does not wait", one.topics())
	} else {
		h.answer(one, store.Popped{}, nil)
	}
	g.expectErr(t, store.ErrEmpty)
}
