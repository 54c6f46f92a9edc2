package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
)

// patient is a Client that tolerates a hanging Redis, with enough connections for all its calls.
func (f *fixture) patient() *client.Client {
	f.TB.Helper()
	c := f.openPool(client.PoolOptions{ReadTimeout: hangBound})
	check(f.TB, c.WarmUp(f.TB.Context()))
	check(f.TB, c.Ping(f.TB.Context())) // checks the layout first
	return c
}

// await waits until this many calls are made: most of them in batches of their own, the others waiting for the next
// batch.
func await(t testing.TB, calls, most int, count func() (underWay, gathered int)) {
	t.Helper()
	until(t, fmt.Sprint(calls, " calls are under way or gathered"), func() bool {
		underWay, gathered := count()
		return underWay == min(calls, most) && gathered == max(calls-most, 0)
	})
}

// gathering has the calls that are made while Redis hangs.
type gathering struct {
	*fixture
	ends    []<-chan error
	scripts int // the number of scripts that ran earlier
}

// gather makes Redis hang and makes the calls one after the other: most of them in batches of their own, the others
// waiting for the next batch.
func (f *fixture) gather(most int, count func() (underWay, gathered int), calls []func() error) *gathering {
	f.TB.Helper()
	g := &gathering{fixture: f, scripts: f.Calls("evalsha")}
	f.Hang()
	for i, call := range calls {
		g.ends = append(g.ends, later(call))
		await(f.TB, i+1, most, count)
	}
	return g
}

// release makes Redis continue, and returns the calls' results and the number of scripts that they needed.
func (g *gathering) release() (errs []error, scripts int) {
	g.TB.Helper()
	g.Continue()
	for _, end := range g.ends {
		errs = append(errs, arrival(g.TB, end))
	}
	return errs, g.Calls("evalsha") - g.scripts
}

// gatherPushes makes the pushes wait behind other pushes, and returns their results and the number of scripts that they
// needed.
func (f *fixture) gatherPushes(c *client.Client, pushes []func() error) (errs []error, scripts int) {
	f.TB.Helper()
	other := func() error {
		return errOf(c.Push(f.TB.Context(), client.Message{Topic: "other", Body: "b"}, time.Hour))
	}
	check(f.TB, other()) // the script is known then
	calls := append(slices.Repeat([]func() error{other}, client.RoundTrips), pushes...)
	errs, scripts = f.gather(client.RoundTrips, c.Pushes, calls).release()
	check(f.TB, errors.Join(errs[:client.RoundTrips]...))
	return errs[client.RoundTrips:], scripts - client.RoundTrips
}

// Two pushes of one ID never share a batch: each is done by itself, in either order.
func TestGatheredPushesOfOneID(t *testing.T) {
	f := start(t, alone, undivided)
	c := f.patient()
	var pushes []func() error
	for _, m := range []client.Message{{ID: "a", Body: "1"}, {ID: "b", Body: "1"}, {ID: "b", Body: "refused"}, {ID: "c", Body: "1"}} {
		m.Topic = "t"
		policy := client.IfExists(client.Replace())
		if m.Body == "refused" {
			policy = client.IfExists(client.Refuse())
		}
		pushes = append(pushes, func() error { return errOf(c.Push(t.Context(), m, time.Hour, policy)) })
	}
	errs, calls := f.gatherPushes(c, pushes)
	if calls != 2 {
		t.Errorf("%d calls, want 2", calls)
	}
	for n, err := range errs {
		if err != nil && !(n == 2 && errors.Is(err, client.ErrExists)) {
			t.Errorf("push %d: %v", n, err)
		}
	}
	got := f.State().Buckets
	for _, id := range []string{"a", "b", "c"} {
		if got[id] != "t 1" {
			t.Errorf("%s is %q", id, got[id])
		}
	}
}

// A batch of pushes has up to 250 jobs or about 1 MiB.
func TestGatheredPushesAreBounded(t *testing.T) {
	t.Parallel()
	f := start(t, alone, undivided)
	c := f.patient()
	for _, tt := range []struct{ pushes, size, calls int }{{251, 1, 2}, {250, 1, 1}, {11, 100 << 10, 2}, {10, 100 << 10, 1}} {
		push := func() error {
			return errOf(c.Push(t.Context(), client.Message{Topic: "t", Body: strings.Repeat("x", tt.size)}, time.Hour))
		}
		errs, calls := f.gatherPushes(c, slices.Repeat([]func() error{push}, tt.pushes))
		if err := errors.Join(errs...); err != nil || calls != tt.calls {
			t.Errorf("%d pushes of %d bytes: %d calls, want %d; %v", tt.pushes, tt.size, calls, tt.calls, err)
		}
	}
}

// If a caller dials for itself and others, its deadline is no error for the others.
func TestDeadlineIsTheCallersOwn(t *testing.T) {
	f := start(t, undivided)
	dials := make(chan bool, 1)
	c := f.on(client.UsePool(&redis.Pool{MaxActive: 1, Wait: true, DialContext: func(ctx context.Context) (redis.Conn, error) {
		if deadline, ok := ctx.Deadline(); ok {
			dials <- true
			for time.Now().Before(deadline) { // a dial may notice before ctx does
			}
			return nil, os.ErrDeadlineExceeded
		}
		return f.Pool().DialContext(ctx)
	}}, 1))
	fetch := func(ctx context.Context) <-chan error {
		return later(func() error {
			return errOf(c.Fetch(ctx, client.FetchOptions{Topics: fetchTopics("t"), Max: 1, NoWait: true}))
		})
	}
	for range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
		defer cancel()
		leader := fetch(ctx)
		var err error
		var follower <-chan error
		select {
		case <-dials:
			follower = fetch(t.Context())
			err = arrival(t, leader)
		case err = <-leader: // the deadline ended before the dial
			follower = fetch(t.Context())
		}
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, client.ErrEmpty) { // other callers may have polled for it
			t.Fatalf("who had a deadline: %v", err)
		}
		expectErr(t, "who had none", arrival(t, follower), client.ErrEmpty)
	}
}
