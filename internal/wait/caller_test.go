package wait

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/batch"
	"github.com/mix-basic/delayer/internal/store"
)

var errLost = fmt.Errorf("%w: %w", ErrLost, errCut)

// A caller with a poll in flight is not ended by another poll, even one that fails. Otherwise it would get a job after it has left.
func TestClaimedCallerIsNotEnded(t *testing.T) {
	h := inHand(t)
	g := h.registered("t", "u")
	h.wakes("t", 1)
	ofT := h.asks()
	h.wakes("u", 1)
	if one := h.asks(); one != nil {
		t.Fatalf("it is claimed twice: %+v", one)
	}
	h.listener.report(errBroken)
	g.leaves(store.ErrEmpty)
	g.expectWaits(t)
	h.answer(ofT, store.Popped{Jobs: jobs("t", 1)}, nil)
	g.expectJob(t, "t1")
	h.expectPassed("woken for a topic whose caller was claimed", "u")
}

// Topics whose callers are all claimed are polled once the callers are free, or for a caller that is.
func TestTopicsOfClaimedCallers(t *testing.T) {
	h := inHand(t)
	g := h.registered("t", "u", "v")
	h.wakes("t", 1)
	ofT := h.asks()
	h.wakes("v", 1)
	h.wakes("u", 1)
	if h.asks() != nil {
		t.Fatal("it is claimed twice")
	}
	free := h.waiter("v")
	one := h.expectAsks("for the caller that is free", "v")
	h.expectClaims(one, 1, free)
	h.answer(one, store.Popped{Jobs: jobs("v", 1), Registered: true}, nil)
	free.expectJob(t, "v1")
	h.answer(ofT, store.Popped{Registered: true}, nil)
	one = h.expectAsks("the caller is free", "u")
	h.expectClaims(one, 1, g)
	h.wakes("v", 1)
	h.answer(one, store.Popped{Jobs: jobs("u", 1)}, nil)
	g.expectJob(t, "u1")
	if h.expectPassed("its other topic", "v"); h.asks() != nil {
		t.Error("a topic without callers is polled")
	}
}

// No poll is sent for a caller that left before its turn. One that left during a poll does not cause another.
func TestLeavingBeforePolling(t *testing.T) {
	for _, topics := range [][]string{{"t"}, {"t", "u"}} {
		h := inHand(t)
		g := h.waiter(topics...)
		g.leaves(context.Canceled)
		g.expectErr(t, context.Canceled)
		if one := h.asks(); one != nil || len(h.shared.topics) > 0 {
			t.Errorf("%+v; %d topics", one, len(h.shared.topics))
		}
	}
	h := inHand(t)
	first := h.waiter("t")
	one := h.asks()
	second := h.waiter("t")
	second.leaves(context.Canceled)
	h.answer(one, store.Popped{}, errCut)
	if h.asks() != nil {
		t.Error("it is polled again at once")
	}
	first.expectWaits(t)
	second.expectErr(t, context.Canceled)
}

// calls polls the hand's partition, and then waits, as a call does. end is when it ended.
func (h *hand) calls(ctx context.Context, timeout time.Duration, r Request) (result <-chan taken) {
	done := make(chan taken, 1)
	go func() {
		c := h.shared.NewCaller(r)
		got, err := c.Poll(ctx, h.Partition)
		if r.Waits && (err == store.ErrEmpty || err != nil && ctx.Err() == nil && store.Temporary(err)) {
			got, err = c.Wait(ctx, timeout, err)
		}
		done <- taken{got, err}
	}()
	synctest.Wait()
	return done
}

// taken is the result of a call.
type taken struct {
	Jobs
	err error
}

// A timeout counts from the end of the poll, however long Redis takes for it, with or without success. It ends no poll in flight.
func TestTimeout(t *testing.T) {
	const timeout = 10 * time.Millisecond
	for _, c := range []struct {
		name   string
		topics []string
		before func(h *hand)
		reply  error
		want   error
	}{
		{"one topic", []string{"t"}, nil, nil, store.ErrEmpty},
		{"two topics", []string{"t", "u"}, nil, nil, store.ErrEmpty},
		{"known to be empty", []string{"t"}, func(h *hand) { h.registered("t").leaves(store.ErrEmpty) }, nil, store.ErrEmpty},
		{"an error", []string{"t"}, nil, errCut, errCut},
		{"a lost reply", []string{"t", "u"}, nil, errLost, ErrLost},
	} {
		for _, late := range []bool{false, true} { // the timeout ends during a poll
			synctest.Test(t, func(t *testing.T) {
				h := inHand(t)
				if c.before != nil {
					c.before(h)
				}
				result := h.calls(t.Context(), timeout, Request{Topics: c.topics, N: 1, Waits: true})
				if c.before == nil {
					time.Sleep(time.Hour)
					h.answer(h.asks(), store.Popped{Registered: c.reply == nil}, c.reply)
				}
				time.Sleep(timeout - 1)
				if synctest.Wait(); len(result) > 0 {
					t.Fatalf("%s: it ends before the timeout: %+v", c.name, <-result)
				}
				var one *poll
				if late {
					h.wakes("t", 1)
					one = h.asks()
				}
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				if late {
					if len(result) > 0 {
						t.Fatalf("%s: it ends during a poll: %+v", c.name, <-result)
					}
					h.answer(one, store.Popped{Jobs: jobs("t", 1)}, nil)
					if got := <-result; got.err != nil || len(got.Jobs.Jobs) != 1 {
						t.Errorf("%s: %+v", c.name, got)
					}
				} else if got := <-result; !errors.Is(got.err, c.want) {
					t.Errorf("%s: %v, want %v", c.name, got.err, c.want)
				}
			})
		}
	}
}

// A call that is cancelled, or whose Client is closed, ends at once, or after the reply of its poll in flight. No call begins after that.
func TestEndsOfCalls(t *testing.T) {
	for _, closes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := inHand(t)
			ctx, cancel := context.WithCancel(t.Context())
			end, want := cancel, context.Canceled
			if closes {
				end, want = h.close, errClosed
			}
			claimed := h.calls(ctx, 0, Request{Topics: []string{"t"}, N: 1, Waits: true})
			one := h.asks()
			taking := h.calls(ctx, 0, Request{Topics: []string{"u"}, N: 1})
			two := h.asks()
			waits := h.calls(ctx, 0, Request{Topics: []string{"v", "w"}, N: 1, Waits: true})
			h.settle()
			polls := h.calls(ctx, 0, Request{Topics: []string{"x"}, N: 1})
			time.Sleep(time.Hour)
			end()
			if got := <-waits; got.err != want {
				t.Errorf("one that waits: %v", got.err)
			}
			if got := <-polls; got.err != want {
				t.Errorf("one that has not polled yet: %v", got.err)
			}
			if synctest.Wait(); len(claimed)+len(taking) > 0 {
				t.Fatal("one with a poll in flight ends")
			}
			h.answer(one, store.Popped{}, nil)
			if got := <-claimed; got.err != want {
				t.Errorf("one with a poll in flight: %v", got.err)
			}
			h.answer(two, store.Popped{Jobs: jobs("u", 1)}, nil)
			if got := <-taking; got.err != nil || len(got.Jobs.Jobs) != 1 {
				t.Errorf("one that gets a job: %+v", got)
			}
			if closes {
				if _, err := h.shared.NewCaller(Request{Topics: []string{"t"}, N: 1}).Poll(ctx, h.Partition); err != errClosed {
					t.Errorf("after Close: %v", err)
				}
			}
			cancel()
		})
	}
}

// The error of a failed call shows why the call ended, and whether a job may be lost.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		leaves error // with which the caller leaves during a poll
		err    error // of that poll
		later  error // with which the caller leaves afterwards, if it still waits
		want   []error
		not    error
	}{
		{name: "timeout", leaves: store.ErrEmpty, want: []error{store.ErrEmpty}},
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
	} {
		h := inHand(t)
		g := h.registered("t")
		h.wakes("t", 1)
		one := h.asks()
		if c.leaves != nil {
			g.leaves(c.leaves)
			g.leaves(errClosed) // ignored: the caller has left
			g.expectWaits(t)
		}
		h.answer(one, store.Popped{}, c.err)
		if c.later != nil {
			g.expectWaits(t)
			g.leaves(c.later)
		}
		g.expectErr(t, c.want...)
		if c.not != nil && errors.Is(g.got.err, c.not) || c.later == errLost && g.got.err != errLost {
			t.Errorf("%s: it says %v", c.name, g.got.err)
		}
		if g.leaves(errClosed); len(g.answers) > 0 || g.got.err == errClosed {
			t.Errorf("%s: it gets two answers", c.name)
		}
	}
}

// A waiting caller tolerates an outage for a limited time, from its first error on. A short one is forgotten when Redis answers.
func TestRetryWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := inHand(t)
		g, several := h.registered("t"), h.registered("u", "v")
		both := []*guest{g, several}
		for range 2 { // the second outage begins anew
			h.listener.report(errCut)
			time.Sleep(RetryWindow - 1)
			h.listener.report(errCut)
			for _, g := range both {
				if g.expectWaits(t); g.lastErr != errCut {
					t.Errorf("it knows of %v", g.lastErr)
				}
			}
			h.check(true, nil)
			for _, g := range both {
				if g.lastErr != nil {
					t.Errorf("Redis answers, and it knows of %v", g.lastErr)
				}
			}
			time.Sleep(time.Hour)
		}
		h.listener.report(errCut)
		late := h.waiter("t") // an outage of which it learns now
		time.Sleep(RetryWindow)
		h.listener.report(errCut)
		for _, g := range both {
			g.expectErr(t, errCut)
		}
		late.expectWaits(t)
		h.listener.report(errBroken)
		late.expectErr(t, errBroken)
	})
}

// While a caller's topic has jobs that do not arrive, errors are not forgotten.
func TestRecovery(t *testing.T) {
	h := inHand(t)
	g, other := h.registered("t", "u"), h.registered("u")
	h.listener.report(errCut)
	h.check(true, map[string]int{"t": 1})
	if g.lastErr == nil || other.lastErr != nil {
		t.Errorf("who has jobs that don't come knows of %v, who has none of %v", g.lastErr, other.lastErr)
	}
}

// A waiting caller tolerates the loss of one of several partitions for any time. It gets the error when none answers, or when its time is over.
func TestWaitingWhileAPartitionIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := inHands(t, 2)
		other := h.all[1]
		h.listener.partitions = h.all[:1] // one Listener each, as in a cluster
		e := h.shared.NewListener(other)
		e.running, e.state = true, subscribed
		all := []*guest{h.waiter("t"), h.waiter("t"), h.waiter("t", "u")}
		h.settle()
		away := func(e *Listener) {
			e.report(errCut)
			time.Sleep(2 * RetryWindow)
			e.report(errCut)
		}
		away(e)
		for _, g := range all {
			g.expectWaits(t)
		}
		h.check(true, nil)
		if all[0].lastErr == nil {
			t.Error("it does not know of the partition that is away")
		}
		all[0].leaves(store.ErrEmpty)
		all[0].expectErr(t, errCut)
		if !other.IsShunned() || h.IsShunned() {
			t.Error("it is not polled last")
		}
		if time.Sleep(shunFor); other.IsShunned() {
			t.Error("it is polled last for longer")
		}
		away(h.listener)
		for _, g := range all[1:] {
			g.expectErr(t, errCut)
		}
	})
}

// A hint of another partition that came while a poll had claimed the caller makes that partition poll afterwards, whatever the reply was.
func TestHintWhileClaimed(t *testing.T) {
	for _, failed := range []error{nil, errCut} {
		h := inHands(t, 2)
		h.registered("t", "u")
		h.check(true, nil)
		other, polled := h.all[1], make(chan struct{}, 1)
		other.batches = batch.NewSender(h.shared.owner, func(context.Context) (*store.Pipeline, error) {
			polled <- struct{}{}
			return nil, errCut
		}, &h.shared.mu, other, 1)
		h.wakes("t", 1)
		one := h.asks()
		h.shared.mu.Lock()
		other.wake("t", 1)
		h.shared.mu.Unlock()
		h.answer(one, store.Popped{Registered: failed == nil}, failed)
		<-polled
		h.shared.owner.Running.Wait()
	}
}

// A poll that fails causes no check at once: it might find jobs that can't be taken now, as while a slot moves, again and again.
func TestNoCheckAfterAFailedPoll(t *testing.T) {
	h := inHand(t)
	h.registered("t")
	h.wakes("t", 1)
	h.answer(h.asks(), store.Popped{}, redis.Error("TRYAGAIN some keys are elsewhere"))
	if topics := h.listener.news(); len(topics) > 0 || h.asks() != nil {
		t.Errorf("%d topics are checked at once", len(topics))
	}
}

// What failed earlier is forgotten once a poll is answered, also if a limit lets no job be taken.
func TestErrorIsForgotten(t *testing.T) {
	h := inHand(t)
	g := h.registered("t")
	h.wakes("t", 1)
	h.answer(h.asks(), store.Popped{}, errCut)
	h.wakes("t", 1)
	h.answer(h.asks(), store.Popped{Throttled: []time.Duration{time.Minute}}, nil)
	g.leaves(store.ErrEmpty)
	g.expectErr(t, store.ErrEmpty)
}
