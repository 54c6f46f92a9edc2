package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
)

// Waiting takes nothing out of Redis. A push with delay 0 and a server's move each end a wait.
func TestWaitersWake(t *testing.T) {
	for name, take := range waiters {
		for _, delay := range []time.Duration{0, 100 * time.Millisecond} {
			t.Run(fmt.Sprint(name, " ", delay), func(t *testing.T) {
				f := start(t)
				f.serve()
				taken := f.waiting(f.Client, func() <-chan result { return inBackground(t.Context(), take, f.Client, 0, "t") }, "t")
				f.Expect(state{})
				from := f.Clock()
				f.put(client.Message{ID: "a", Topic: "t", Body: "body"}, delay)
				expectJob(t, taken, "a")
				if waited := f.Clock() - from; waited < delay.Seconds() {
					t.Errorf("came after %f s", waited)
				}
				f.Expect(takenBy(name, "a", "body"))
			})
		}
	}
}

// takenBy returns what Redis still has of a job of topic t that was taken this way.
func takenBy(name, id, body string) state {
	if strings.Contains(name, "Pop") {
		return state{Buckets: buckets{}}
	}
	return state{Reserved: []string{id}, Counts: buckets{"t": "1"}, Buckets: buckets{id: "t " + body}}
}

// A wait ends with its timeout and not earlier, or with its context, even if Redis hangs.
func TestWaitersEndWithoutAJob(t *testing.T) {
	eachWaiter(t, func(t *testing.T, take taker) {
		t.Parallel()
		f := start(t, alone)
		wait := func(ctx context.Context, timeout time.Duration) <-chan result {
			return inBackground(ctx, take, f.Client, timeout, "t", "u")
		}
		for _, timeout := range []time.Duration{time.Millisecond, 300 * time.Millisecond} {
			if r := arrival(t, wait(t.Context(), timeout)); !errors.Is(r.err, client.ErrEmpty) || r.took < timeout {
				t.Errorf("returned %v after %v of %v", r.err, r.took, timeout)
			}
		}
		expectError(t, wait(deadline(t, 50*time.Millisecond), 0), context.DeadlineExceeded)
		expectError(t, wait(deadline(t, 50*time.Millisecond), time.Hour), context.DeadlineExceeded)
		expectError(t, wait(done(t.Context()), 0), context.Canceled)

		ctx, cancel := context.WithCancel(t.Context())
		waits := f.waiting(f.Client, func() <-chan result { return wait(ctx, 0) }, "t", "u")
		impatient := f.openPool(client.PoolOptions{ReadTimeout: 100 * time.Millisecond})
		f.Hang()
		defer f.Continue()
		cancel()
		if r := arrival(t, waits); !errors.Is(r.err, context.Canceled) || errors.Is(r.err, client.ErrLost) {
			t.Errorf("cancelled while Redis hangs: %v", r.err)
		}
		r := arrival(t, inBackground(t.Context(), take, impatient, 50*time.Millisecond, "t"))
		if r.err == nil || errors.Is(r.err, client.ErrEmpty) {
			t.Errorf("of a Redis that hangs: %v", r.err)
		}
	})
}

// A cancellation races with a push: each job is taken once or is still ready.
func TestCancelLosesNothing(t *testing.T) {
	const rounds, workers = 1000, 6
	for name, take := range waiters {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			var after atomic.Int64 // from the push until the cancellation, about as long as the job takes to arrive
			after.Store(int64(time.Millisecond))
			var taken tally
			var wg sync.WaitGroup
			for worker := range workers {
				wg.Go(func() {
					for round := worker; round < rounds; round += workers {
						wait := after.Load()
						r := f.raceCancelWithPush(take, fmt.Sprint("job", round), rand.N(2*time.Duration(wait)))
						switch {
						case r.err == nil:
							taken.add(r.m.ID)
							after.Store(max(wait*9/10, 10))
						case errors.Is(r.err, context.Canceled):
							after.Store(wait*11/10 + 1)
						default:
							t.Error(r.err)
						}
					}
				})
			}
			wg.Wait()
			left := f.State()
			reserves := !strings.Contains(name, "Pop")
			for round := range rounds {
				id := fmt.Sprint("job", round)
				times, queued, held := taken.count(id), len(left.Ready[id]), slices.Contains(left.Reserved, id)
				if _, kept := left.Buckets[id]; times+queued != 1 || held != (reserves && times == 1) || kept != (held || queued == 1) {
					t.Errorf("%s: taken %d times, in the queue %d times, reserved: %v, has a bucket: %v", id, times, queued, held, kept)
				}
			}
			t.Logf("%d taken, %d left", taken.total(), len(left.Ready))
			if taken.total() == 0 || len(left.Ready) == 0 {
				t.Error("the race was always won by the same side: this proves nothing")
			}
		})
	}
}

// raceCancelWithPush pushes the job for which a caller waits, to a topic of the same name, and cancels the caller this
// much later.
func (f *fixture) raceCancelWithPush(take taker, id string, after time.Duration) result {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	taken := inBackground(ctx, take, f.Client, 0, id)
	for all := 0; all == 0; all, _ = client.Callers(f.Client, id) {
		runtime.Gosched()
	}
	time.AfterFunc(after, cancel)
	f.push(id, id)
	return arrival(f.TB, taken)
}
