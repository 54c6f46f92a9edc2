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

var errLost = fmt.Errorf("%w: %w", ErrLost, errCut)

var endsOfCalls = []struct {
	name   string
	known  bool  // the queue was empty at first
	leaves error // error with which the caller leaves during a poll
	err    error // result of that poll
	later  error // error with which the caller leaves afterwards, if it is still waiting
	want   []error
	not    error
}{
	{name: "timeout", known: true, leaves: store.ErrEmpty, want: []error{store.ErrEmpty}},
	{name: "cancelled", leaves: context.Canceled, want: []error{context.Canceled}},
	{name: "timeout, failed", leaves: store.ErrEmpty, err: errCut, want: []error{errCut}, not: store.ErrEmpty},
	{name: "cancelled, failed", leaves: context.Canceled, err: errCut, want: []error{context.Canceled}, not: errCut},
	{name: "timeout, lost", leaves: store.ErrEmpty, err: errLost, want: []error{ErrLost}, not: store.ErrEmpty},
	{name: "cancelled, lost", leaves: context.Canceled, err: errLost, want: []error{context.Canceled, ErrLost}},
	{name: "lost, timeout", err: errLost, later: store.ErrEmpty, want: []error{ErrLost}, not: store.ErrEmpty},
	{name: "lost, cancelled", err: errLost, later: context.Canceled, want: []error{context.Canceled, ErrLost}},
	{name: "lost, and the same error", err: errLost, later: errLost, want: []error{ErrLost}},
	{name: "failed, timeout", err: errCut, later: store.ErrEmpty, want: []error{errCut}, not: store.ErrEmpty},
	{name: "failed, cancelled", err: errCut, later: context.Canceled, want: []error{context.Canceled}, not: errCut},
	{name: "broken", err: errBroken, want: []error{errBroken}},
	{name: "empty, timeout", later: store.ErrEmpty, want: []error{store.ErrEmpty}},
}

// The error of a failed call shows why the call ended and whether a job may be lost.
func TestErrors(t *testing.T) {
	for _, c := range endsOfCalls {
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
		if n := len(a.Jobs.Jobs); n > 0 || c.later == errLost && a.err != errLost {
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
