package wait

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// A caller with a poll in flight is not ended by another poll, even one that fails. Otherwise it would
// get a job after it has left.
func TestClaimedCallerIsNotEnded(t *testing.T) {
	h := inHand(t)
	g := h.waiter("t", "u")
	h.settle()
	h.s.wake("t", 1)
	ofT := h.asks()
	h.s.wake("u", 1)
	if one := h.asks(); one != nil {
		t.Fatalf("it is claimed twice: %+v", one)
	}
	h.s.listener.report(errBroken)
	h.leave(g.caller, store.ErrEmpty)
	g.expectWaits(t)
	h.answer(ofT, store.Popped{Jobs: jobs("t", 1)}, nil)
	g.expectJob(t, "t1")
	h.expectPassed("woken for a queue whose caller was claimed", "u")
}

// Queues whose callers are all claimed are polled once the callers are free.
func TestQueuesOfClaimedCallers(t *testing.T) {
	h := inHand(t)
	g := h.waiter("t", "u", "v")
	h.settle()
	h.s.wake("t", 1)
	ofT := h.asks()
	h.s.wake("v", 1)
	h.s.wake("u", 1)
	if h.asks() != nil || len(h.blocked) != 2 {
		t.Fatalf("%d queues are held", len(h.blocked))
	}
	h.s.wake("v", 1) // again
	if h.asks() != nil || len(h.blocked) != 2 {
		t.Fatalf("%d queues are held", len(h.blocked))
	}
	h.answer(ofT, store.Popped{Registered: true}, nil)
	one := h.asks()
	if !slices.Equal(one.topics(), []string{"v"}) {
		t.Fatalf("%q are asked", one.topics())
	}
	free := h.waiter("u") // the caller that can be polled for at once
	if two := h.asks(); !slices.Equal(two.topics(), []string{"u"}) || two.claims[0].caller != free.caller {
		t.Fatalf("%+v", two)
	} else {
		h.answer(two, store.Popped{Jobs: jobs("u", 1), Registered: true}, nil)
	}
	free.expectJob(t, "u1")
	h.answer(one, store.Popped{Jobs: jobs("v", 1)}, nil)
	g.expectJob(t, "v1")
	if h.asks() != nil || len(h.blocked) > 0 {
		t.Error("a queue without callers is asked")
	}
}

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

// No poll is sent for a caller of several topics that left before its turn.
func TestLeavingBeforePolling(t *testing.T) {
	h := inHand(t)
	for _, topics := range [][]string{{"t"}, {"t", "u"}} {
		g := h.waiter(topics...)
		h.leave(g.caller, context.Canceled)
		g.expectErr(t, context.Canceled)
		if one := h.asks(); one != nil || len(h.s.queues) > 0 {
			t.Errorf("%+v; %d queues", one, len(h.s.queues))
		}
	}
}

// A timeout counts from the end of the first poll of all queues, however long Redis takes for it, with or without success.
func TestTimeoutCountsFromTheFirstPoll(t *testing.T) {
	const timeout = 10 * time.Millisecond
	empty := func(h *hand) { h.settle() }
	for _, c := range []struct {
		name   string
		topics []string
		kinds  []Kind // two kinds take two polls
		before func(h *hand)
		look   []func(h *hand)
		want   error
	}{
		{name: "one topic", topics: []string{"t"}, look: []func(*hand){empty}, want: store.ErrEmpty},
		{name: "two topics", topics: []string{"t", "u"}, look: []func(*hand){empty}, want: store.ErrEmpty},
		{name: "two polls", topics: []string{"t", "u"}, kinds: []Kind{{}, {Reserves: true}}, want: store.ErrEmpty, look: []func(*hand){
			func(h *hand) { h.answer(h.asks(), store.Popped{Registered: true}, nil) },
			func(h *hand) { h.answer(h.asks(), store.Popped{Registered: true}, nil) },
		}},
		{name: "known to be empty", topics: []string{"t"}, before: func(h *hand) { h.waiter("t"); h.settle() }, want: store.ErrEmpty},
		{name: "refused", topics: []string{"t"}, look: []func(*hand){func(h *hand) { h.answer(h.asks(), store.Popped{}, errCut) }}, want: errCut},
		{name: "refused, two topics", topics: []string{"t", "u"}, look: []func(*hand){func(h *hand) { h.answer(h.asks(), store.Popped{}, errCut) }}, want: errCut},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := inHand(t)
				if c.before != nil {
					c.before(h)
				}
				g := h.joins(Request{Topics: c.topics, N: 1, Waits: true, Timeout: timeout, Kinds: c.kinds})
				for _, answer := range c.look {
					time.Sleep(time.Hour)
					synctest.Wait()
					g.expectWaits(t)
					answer(h)
				}
				time.Sleep(timeout - 1)
				synctest.Wait()
				g.expectWaits(t)
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				g.expectErr(t, c.want)
			})
		})
	}
}

// The error of a failed call shows why the call ended and whether a job may be lost.
func TestErrors(t *testing.T) {
	lost := fmt.Errorf("%w: %w", ErrLost, errCut)
	timeout, cancelled := store.ErrEmpty, context.Canceled
	for _, c := range []struct {
		name   string
		known  bool  // the queue was empty at first
		leaves error // error with which the caller leaves during a poll
		err    error // result of that poll
		later  error // error with which the caller leaves afterwards, if it is still waiting
		want   []error
		not    error
	}{
		{name: "timeout", known: true, leaves: timeout, want: []error{timeout}},
		{name: "cancelled", leaves: cancelled, want: []error{cancelled}},
		{name: "timeout, failed", leaves: timeout, err: errCut, want: []error{errCut}, not: timeout},
		{name: "cancelled, failed", leaves: cancelled, err: errCut, want: []error{cancelled}, not: errCut},
		{name: "timeout, lost", leaves: timeout, err: lost, want: []error{ErrLost}, not: timeout},
		{name: "cancelled, lost", leaves: cancelled, err: lost, want: []error{cancelled, ErrLost}},
		{name: "lost, timeout", err: lost, later: timeout, want: []error{ErrLost}, not: timeout},
		{name: "lost, cancelled", err: lost, later: cancelled, want: []error{cancelled, ErrLost}},
		{name: "lost, and the same error", err: lost, later: lost, want: []error{ErrLost}},
		{name: "failed, timeout", err: errCut, later: timeout, want: []error{errCut}, not: timeout},
		{name: "failed, cancelled", err: errCut, later: cancelled, want: []error{cancelled}, not: errCut},
		{name: "broken", err: errBroken, want: []error{errBroken}},
		{name: "empty, timeout", later: timeout, want: []error{timeout}},
	} {
		h := inHand(t)
		g := h.waiter("t")
		if c.known {
			h.settle()
			h.s.wake("t", 1)
		}
		one := h.asks()
		if c.leaves != nil {
			h.leave(g.caller, c.leaves)
			h.leave(g.caller, errClosed) // ignored: the caller has left
			g.expectWaits(t)
		}
		h.answer(one, store.Popped{}, c.err)
		if c.later != nil {
			g.expectWaits(t)
			h.leave(g.caller, c.later)
		}
		if len(g.answers) != 1 {
			t.Fatalf("%s: %d answers", c.name, len(g.answers))
		}
		a := <-g.answers
		g.answers <- a
		g.expectErr(t, c.want...)
		if c.not != nil && errors.Is(a.err, c.not) {
			t.Errorf("%s: it says %v", c.name, a.err)
		}
		if n := len(a.Jobs.Jobs); n > 0 || c.later == lost && a.err != lost {
			t.Errorf("%s: %d jobs, %v", c.name, n, a.err)
		}
		h.leave(g.caller, errClosed)
		if len(g.answers) > 0 {
			t.Errorf("%s: it gets two answers", c.name)
		}
	}
}

// A waiting caller tolerates an outage for a limited time. A short one is forgotten when Redis answers.
func TestRetryWindow(t *testing.T) {
	h := inHand(t)
	g, several := h.waiter("t"), h.waiter("u", "v")
	h.settle()
	both := []*guest{g, several}
	ago := func(d time.Duration) {
		for _, g := range both {
			g.failing = g.failing.Add(-d)
		}
	}
	h.s.listener.report(errCut)
	ago(RetryWindow / 2)
	h.s.listener.report(errCut)
	for _, g := range both {
		g.expectWaits(t)
		if g.lastErr != errCut || time.Since(g.failing) < RetryWindow/2 {
			t.Errorf("it knows of %v since %v", g.lastErr, g.failing)
		}
	}
	h.check(true, nil)
	for _, g := range both {
		if g.lastErr != nil || !g.failing.IsZero() {
			t.Errorf("Redis answers, and it knows of %v", g.lastErr)
		}
	}
	h.s.listener.report(errCut)
	ago(RetryWindow)
	h.s.listener.report(errCut)
	for _, g := range both {
		g.expectErr(t, errCut)
	}
}

// While a caller's queue has jobs that do not arrive, errors are not forgotten.
func TestRecovery(t *testing.T) {
	h := inHand(t)
	g, other := h.waiter("t", "u"), h.waiter("u")
	h.settle()
	h.s.listener.report(errCut)
	h.check(true, map[string]int{"t": 1})
	if g.lastErr == nil || other.lastErr != nil {
		t.Errorf("who has jobs that don't come knows of %v, who has none of %v", g.lastErr, other.lastErr)
	}
}

// Close ends all waits. A claimed caller ends after its reply. No caller can join after Close.
func TestClose(t *testing.T) {
	h := inHand(t)
	claimed, waits := h.waiter("t"), h.waiter("u", "v")
	one := h.asks()
	h.Close()
	waits.expectErr(t, errClosed)
	claimed.expectWaits(t)
	h.answer(one, store.Popped{}, nil)
	claimed.expectErr(t, errClosed)
	if _, err := h.Take(context.Background(), Request{Topics: []string{"t"}, N: 1}); err != errClosed {
		t.Errorf("Take: %v", err)
	}
}

// Jobs that arrive in two parts count as one result, requested when the first part was requested.
func TestAddJobs(t *testing.T) {
	first, second := time.Unix(1, 0), time.Unix(2, 0)
	var got Jobs
	got.Add(Jobs{jobs("a", 1), []store.Lease{{Token: 1}}, first})
	got.Add(Jobs{jobs("b", 2), []store.Lease{{Token: 2}, {Token: 3}}, second})
	if len(got.Jobs) != 3 || got.Jobs[2].ID != "b2" || len(got.Leases) != 3 || got.Leases[2].Token != 3 || got.AskedAt != first {
		t.Errorf("%+v", got)
	}
}
