package batch

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// single is a Redis behind a Cutter, and a Batcher of pushes on it.
type single struct {
	*testing.T
	*redistest.Server
	cutter *redistest.Cutter
	pool   *redis.Pool
	store  *store.Store
	pushes *Batcher[store.Delayed]
	owner  *Owner
	close  context.CancelFunc // ends the store
	led    atomic.Bool        // the last call was made in the caller's own goroutine
}

func onOne(t *testing.T) *single {
	s := redistest.Start(t)
	f := &single{T: t, Server: s, cutter: redistest.StartCutter(t, s.Addr)}
	f.pool = &redis.Pool{MaxIdle: 8, DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", f.cutter.Addr)
	}}
	ctx, closeAll := context.WithCancel(context.Background())
	owner := &Owner{Running: new(sync.WaitGroup), Closed: errors.New("closed")}
	f.owner, f.close = owner, closeAll
	t.Cleanup(func() {
		closeAll()
		owner.Running.Wait()
		f.pool.Close()
	})
	f.store = store.New(f.pool, store.DefaultPrefix)
	f.store.EndWith(ctx, owner.Closed)
	f.pushes = NewBatcher(owner, Kind[store.Delayed]{
		Measure: func(job store.Delayed) (string, int) { return job.ID, len(job.Body) },
		Call: func(s *store.Store, jobs []store.Delayed) *store.Call[[]error] {
			stack := make([]byte, 16<<10)
			f.led.Store(strings.Contains(string(stack[:runtime.Stack(stack, false)]), "batch.TestPromises"))
			return s.Push(jobs)
		},
	})
	for range RoundTrips {
		f.push("warm")
	}
	return f
}

func (f *single) do(ctx context.Context, id string) error {
	job := store.Delayed{Job: store.Job{ID: id, Topic: "t", Body: "b"}, Due: store.Due{After: time.Hour}}
	job.Terms = store.Terms{Lifetime: time.Hour, Policy: store.Refuse}
	return f.pushes.Do(ctx, f.store, job)
}

func (f *single) push(id string) error { return f.do(context.Background(), id) }

// pushAll starts pushes one after the other while Redis hangs, then lets it continue. Each gets its own answer.
func (f *single) pushAll(ids ...string) []error {
	f.Helper()
	f.Hang()
	errs := make([]error, len(ids))
	var ends sync.WaitGroup
	for i, id := range ids {
		ends.Go(func() { errs[i] = f.push(id) })
		f.await(i + 1)
	}
	f.Continue()
	ends.Wait()
	return errs
}

// await waits until that many calls are in flight or wait.
func (f *single) await(calls int) {
	f.Helper()
	redistest.Until(f.T, fmt.Sprint(calls, " calls are made"), func() bool {
		h := f.pushes.ForTests(f.store)
		return h.UnderWay+h.Waiting == calls
	})
}

func (f *single) expectPool(want ...string) {
	f.Helper()
	got := f.Strings("ZRANGE", f.store.Keys().JobPool(), 0, -1)
	slices.Sort(got)
	if want = append(want, "warm"); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		f.Errorf("the pool has %q, want %q", got, want)
	}
}

// The promises in the package's comment that hold on a single server; those about a moving slot are in line_test.go.
func TestPromises(t *testing.T) {
	for name, check := range map[string]func(f *single){
		"a lone caller goes at once": func(f *single) {
			canceled, cancel := context.WithCancel(f.Context())
			defer cancel()
			hurried, cancel := context.WithTimeout(f.Context(), redistest.HangBound)
			defer cancel()
			for id, ctx := range map[string]context.Context{"a": f.Context(), "b": canceled, "c": hurried} {
				redistest.Check(f.T, f.do(ctx, id))
				if !f.led.Load() {
					f.Errorf("%s: another goroutine has made the call", id)
				}
			}
			f.expectPool("a", "b", "c")
		},
		"a lone caller's deadline ends its wait for an answer, and what was done is unknown": func(f *single) {
			f.Hang()
			ctx, cancel := context.WithTimeout(f.Context(), 50*time.Millisecond)
			defer cancel()
			if err := f.do(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) || IsNotDone(err) {
				f.Errorf("the caller gets %v", err)
			}
			f.Continue()
		},
		"callers that come meanwhile go together, and each gets its own answer": func(f *single) {
			scripts := f.Calls("evalsha")
			errs := f.pushAll("a", "b", "warm", "c", "d", "e")
			for i, err := range errs {
				if (i == 2) != errors.Is(err, store.ErrExists) || i != 2 && err != nil {
					f.Errorf("caller %d gets %v", i, err)
				}
			}
			if n := f.Calls("evalsha") - scripts; n != RoundTrips+1 {
				f.Errorf("%d scripts were run, want %d", n, RoundTrips+1)
			}
			f.expectPool("a", "b", "c", "d", "e")
		},
		"a caller that leaves before its item is sent has done nothing": func(f *single) {
			f.Hang()
			var others sync.WaitGroup
			for i := range RoundTrips {
				others.Go(func() { f.push(fmt.Sprint(i)) })
				f.await(i + 1)
			}
			ctx, leave := context.WithCancel(f.Context())
			left := make(chan error, 1)
			go func() { left <- f.do(ctx, "left") }()
			f.await(RoundTrips + 1)
			leave()
			if err := redistest.Receive(f.T, left); !errors.Is(err, context.Canceled) || !IsNotDone(err) {
				f.Errorf("the caller gets %v", err)
			}
			f.Continue()
			others.Wait()
			f.expectPool("0", "1")
		},
		"after a lost answer it is unknown what was done, and nothing is sent again": func(f *single) {
			f.cutter.Arm(1, true)
			err := f.push("a")
			if store.KindOf(err) != store.NoAnswer || IsNotDone(err) {
				f.Errorf("the caller gets %v, want that it is unknown", err)
			}
			if sent := f.cutter.Commands(); len(sent) != 1 {
				f.Errorf("sent were %q", sent)
			}
			f.expectPool("a")
		},
		"the end of its context, or of the owner, ends a lone caller's wait for a connection": func(f *single) {
			f.pool.MaxActive, f.pool.Wait = 1, true
			only := f.pool.Get()
			defer only.Close()
			for name, c := range map[string]struct {
				end  func(leave context.CancelFunc)
				want error
			}{
				"its context": {func(leave context.CancelFunc) { leave() }, context.Canceled},
				"the owner":   {func(context.CancelFunc) { f.close() }, f.owner.Closed},
			} {
				ctx, leave := context.WithCancel(f.Context())
				defer leave()
				if c.want == f.owner.Closed {
					ctx = context.Background() // which has no end
				}
				got := make(chan error, 1)
				go func() { got <- f.do(ctx, "a") }()
				c.end(leave)
				if err := redistest.Receive(f.T, got); !errors.Is(err, c.want) {
					f.Errorf("%s ends: the caller gets %v, want %v", name, err, c.want)
				}
			}
		},
		"what was not sent is told as not done": func(f *single) {
			f.pool.Close()
			if err := f.push("a"); !IsNotDone(err) {
				f.Errorf("the caller gets %v, want that it is not done", err)
			}
			f.expectPool()
		},
		"a script that Redis has forgotten is sent once, and each call is done once": func(f *single) {
			f.Do("SCRIPT", "FLUSH")
			texts := f.Calls("eval")
			for i, err := range f.pushAll("a", "b", "c", "d") {
				if err != nil {
					f.Errorf("caller %d gets %v", i, err)
				}
			}
			if n := f.Calls("eval") - texts; n < 1 || n > RoundTrips {
				f.Errorf("the text was sent %d times", n)
			}
			f.expectPool("a", "b", "c", "d")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(onOne(t))
		})
	}
}
