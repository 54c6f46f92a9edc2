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

// patient is a Client that bears a hanging Redis.
func (f *fixture) patient() *client.Client {
	c := client.OpenPool(client.PoolOptions{Addr: f.redis.Addr, ReadTimeout: hangBound})
	f.t.Cleanup(func() { c.Close() })
	return c
}

// await waits until so many calls are made: most of them in round trips of their
// own, the others gathered.
func await(t *testing.T, calls, most int, count func() (underWay, gathered int)) {
	t.Helper()
	until(t, fmt.Sprint(calls, " calls are under way or gathered"), func() bool {
		underWay, gathered := count()
		return underWay == min(calls, most) && gathered == max(calls-most, 0)
	})
}

// Pushes that come while others are under way go together, and each caller gets
// its own result: one is refused, one meets a broken bucket, one leaves before
// it was sent, all others are stored.
func TestPushesShareRoundTrips(t *testing.T) {
	f := start(t)
	f.seed(all(waiting("exists", "t"), []string{"SET delayer:job_bucket:broken x"})...)
	c := f.patient()
	if err := c.WarmUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := f.info("commandstats", "cmdstat_evalsha:calls=")
	f.redis.Hang()
	const pushes = 100
	want := state{Pool: []string{"exists"}, Buckets: buckets{"exists": "t old"}, Other: map[string]string{"delayer:job_bucket:broken": "string"}}
	ended := make(chan error, pushes)
	push := func(ctx context.Context, id string, ends chan error) {
		_, err := c.Push(ctx, client.Message{ID: id, Topic: "t", Body: "b"}, 2*time.Hour, client.IfExists(client.Refuse))
		ends <- err
	}
	for i := range pushes {
		id := fmt.Sprintf("%03d", i)
		want.Pool, want.Buckets[id] = append(want.Pool, id), "t b"
		go push(t.Context(), id, ended)
		await(t, i+1, client.MaxPushCalls, c.Pushes)
	}
	exists, broken, left := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go push(t.Context(), "exists", exists)
	go push(t.Context(), "broken", broken)
	go push(ctx, "left", left)
	await(t, pushes+3, client.MaxPushCalls, c.Pushes)
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("left: %v", err)
	}
	f.redis.Resume()
	for range pushes {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if err := <-exists; !errors.Is(err, client.ErrExists) {
		t.Errorf("exists: %v", err)
	}
	if err := <-broken; err == nil || errors.Is(err, client.ErrExists) {
		t.Errorf("broken: %v", err)
	}
	if calls := f.info("commandstats", "cmdstat_evalsha:calls=") - before; calls > 5 {
		t.Errorf("%d calls for %d pushes", calls, pushes)
	}
	got := f.state()
	slices.Sort(got.Pool)
	slices.Sort(want.Pool)
	if !slices.Equal(got.Pool, want.Pool) {
		t.Errorf("pool %q, want %q", got.Pool, want.Pool)
	}
	want.Pool = f.state().Pool
	f.expect(want)
}

// Pops that come while others are under way are served together, each with a
// job of its own, and those who left cost no job.
func TestPopsShareRoundTrips(t *testing.T) {
	f := start(t)
	const pops = 50
	if _, err := f.PushBatch(t.Context(), jobs(0, pops+1, "t", 0)); err != nil {
		t.Fatal(err)
	}
	c := f.patient()
	if err := c.WarmUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := f.info("commandstats", "cmdstat_evalsha:calls=")
	f.redis.Hang()
	ended := make(chan result, pops)
	pop := func(ctx context.Context, ends chan result) {
		m, err := c.Pop(ctx, "t")
		ends <- result{m: m, err: err}
	}
	underWay := func() (underWay, gathered int) { return c.Pops("t") }
	for i := range pops {
		go pop(t.Context(), ended)
		await(t, i+1, 1, underWay)
	}
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan result, 1)
	go pop(ctx, left)
	await(t, pops+1, 1, underWay)
	cancel()
	if r := <-left; !errors.Is(r.err, context.Canceled) {
		t.Errorf("left: %+v", r)
	}
	f.redis.Resume()
	got := map[string]bool{}
	for range pops {
		r := <-ended
		if r.err != nil || got[r.m.ID] {
			t.Errorf("%+v", r)
		}
		got[r.m.ID] = true
	}
	if calls := f.info("commandstats", "cmdstat_evalsha:calls=") - before; calls > 5 {
		t.Errorf("%d calls for %d pops", calls, pops)
	}
	if rest := f.state().Ready["t"]; len(rest) != 1 || got[rest[0]] {
		t.Errorf("left over: %q", rest)
	}
}

// More pops gather than one call serves: each gets a job all the same.
func TestMorePopsThanOneCallServes(t *testing.T) {
	f := start(t)
	const pops = 300
	if _, err := f.PushBatch(t.Context(), jobs(0, pops, "t", 0)); err != nil {
		t.Fatal(err)
	}
	c := f.patient()
	if err := c.WarmUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.redis.Hang()
	ended := make(chan result, pops)
	for range pops {
		go func() {
			m, err := c.Pop(t.Context(), "t")
			ended <- result{m: m, err: err}
		}()
	}
	await(t, pops, 1, func() (underWay, gathered int) { return c.Pops("t") })
	f.redis.Resume()
	for range pops {
		if r := waitFor(t, ended); r.err != nil {
			t.Fatal(r.err)
		}
	}
	f.expect(state{})
}

// gather makes the pushes while Redis hangs, so that all but the first few go
// together, and returns how many calls that took, and each one's error.
func gather(t *testing.T, f *fixture, pushes []func(c *client.Client) error) (calls int, errs []error) {
	t.Helper()
	c := f.patient()
	if err := c.WarmUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Push(t.Context(), client.Message{ID: "first", Topic: "other", Body: "b"}, time.Hour); err != nil { // the script is known then
		t.Fatal(err)
	}
	before := f.info("commandstats", "cmdstat_evalsha:calls=")
	f.redis.Hang()
	blockers := make(chan error, client.MaxPushCalls)
	for n := range client.MaxPushCalls {
		go func() {
			_, err := c.Push(t.Context(), client.Message{ID: fmt.Sprint("blocker", n), Topic: "other", Body: "b"}, time.Hour)
			blockers <- err
		}()
		await(t, n+1, client.MaxPushCalls, c.Pushes)
	}
	ends := make([]chan error, len(pushes))
	for n, push := range pushes {
		ends[n] = make(chan error, 1)
		go func() { ends[n] <- push(c) }()
		await(t, client.MaxPushCalls+n+1, client.MaxPushCalls, c.Pushes)
	}
	f.redis.Resume()
	for range client.MaxPushCalls {
		if err := <-blockers; err != nil {
			t.Error(err)
		}
	}
	for _, end := range ends {
		errs = append(errs, <-end)
	}
	return f.info("commandstats", "cmdstat_evalsha:calls=") - before - client.MaxPushCalls, errs
}

// Pushes that go together keep what each of them asked for.
func TestGatheredPushesKeepTheirTerms(t *testing.T) {
	f := start(t)
	f.seed(all(waiting("refused", "t"), waiting("earlier", "t"), waiting("replaced", "t"))...)
	push := func(id string, opts ...client.PushOption) func(c *client.Client) error {
		return func(c *client.Client) error {
			_, err := c.Push(t.Context(), client.Message{ID: id, Topic: "t", Body: "new"}, 2*time.Hour, opts...)
			return err
		}
	}
	calls, errs := gather(t, f, []func(c *client.Client) error{
		push("short", client.ReadyMaxLifetime(time.Minute)),
		push("refused", client.IfExists(client.Refuse)),
		push("default"),
		push("earlier", client.IfExists(client.KeepEarlier)),
		push("long", client.ReadyMaxLifetime(1000*time.Hour)),
		push("replaced"),
	})
	if calls != 1 {
		t.Errorf("%d calls, want 1", calls)
	}
	for n, err := range errs {
		if want := map[int]error{1: client.ErrExists}[n]; !errors.Is(err, want) {
			t.Errorf("push %d: %v, want %v", n, err, want)
		}
	}
	now := f.clock()
	for id, want := range map[string]struct{ due, kept time.Duration }{
		"short": {2 * time.Hour, time.Minute}, "default": {2 * time.Hour, client.DefaultReadyMaxLifetime}, "long": {2 * time.Hour, 1000 * time.Hour},
		"earlier": {1000 * time.Second, client.DefaultReadyMaxLifetime}, "replaced": {2 * time.Hour, client.DefaultReadyMaxLifetime},
		"refused": {1000 * time.Second, time.Hour - 1000*time.Second},
	} {
		if due := f.due(id) - now; due > want.due.Seconds()+0.1 || due < want.due.Seconds()-60 {
			t.Errorf("%s is due in %.1f s, want %v", id, due, want.due)
		}
		if kept := f.expires(id) - f.due(id); kept > want.kept.Seconds()+0.1 || kept < want.kept.Seconds()-60 {
			t.Errorf("%s is kept for %.1f s, want %v", id, kept, want.kept)
		}
	}
}

// Two pushes of one ID do not go together: each is done by itself, in either order.
func TestGatheredPushesOfOneID(t *testing.T) {
	f := start(t)
	push := func(id, body string, opts ...client.PushOption) func(c *client.Client) error {
		return func(c *client.Client) error {
			_, err := c.Push(t.Context(), client.Message{ID: id, Topic: "t", Body: body}, time.Hour, opts...)
			return err
		}
	}
	calls, errs := gather(t, f, []func(c *client.Client) error{
		push("a", "1"), push("b", "1"), push("b", "refused", client.IfExists(client.Refuse)), push("c", "1"),
	})
	if calls != 2 {
		t.Errorf("%d calls, want 2", calls)
	}
	for n, err := range errs {
		if err != nil && !(n == 2 && errors.Is(err, client.ErrExists)) {
			t.Errorf("push %d: %v", n, err)
		}
	}
	got := f.state().Buckets
	for id, body := range map[string]string{"a": "t 1", "b": "t 1", "c": "t 1"} {
		if got[id] != body {
			t.Errorf("%s is %q, want %q", id, got[id], body)
		}
	}
}

// Pushes go together up to 250 jobs or about 1 MiB.
func TestGatheredPushesAreBounded(t *testing.T) {
	for _, c := range []struct{ pushes, size, calls int }{{251, 1, 2}, {250, 1, 1}, {11, 100 << 10, 2}, {10, 100 << 10, 1}} {
		f := start(t)
		var pushes []func(c *client.Client) error
		for range c.pushes {
			pushes = append(pushes, func(cl *client.Client) error {
				_, err := cl.Push(t.Context(), client.Message{Topic: "t", Body: strings.Repeat("x", c.size)}, time.Hour)
				return err
			})
		}
		calls, errs := gather(t, f, pushes)
		if err := errors.Join(errs...); err != nil || calls != c.calls {
			t.Errorf("%d pushes of %d bytes: %d calls, want %d; %v", c.pushes, c.size, calls, c.calls, err)
		}
	}
}

// The deadline of a caller who dials for others, too, is no error of theirs.
func TestDeadlineIsTheCallersOwn(t *testing.T) {
	f := start(t)
	dials := make(chan bool, 1)
	pool := &redis.Pool{MaxActive: 1, Wait: true, DialContext: func(ctx context.Context) (redis.Conn, error) {
		if deadline, ok := ctx.Deadline(); ok {
			dials <- true
			for time.Now().Before(deadline) { // a dial may notice before ctx does
			}
			return nil, os.ErrDeadlineExceeded
		}
		return redis.DialContext(ctx, "tcp", f.redis.Addr)
	}}
	defer pool.Close()
	c := client.New(pool)
	defer c.Close()
	o := client.FetchOptions{Topics: []client.FetchTopic{{Topic: "t"}}, Max: 1, NoWait: true}
	for range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
		defer cancel()
		leader, follower := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := c.Fetch(ctx, o)
			leader <- err
		}()
		select {
		case <-dials:
		case err := <-leader: // it had no time left for that
			leader <- err
		}
		go func() {
			_, err := c.Fetch(t.Context(), o)
			follower <- err
		}()
		if err := <-leader; !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, client.ErrEmpty) { // others may have asked for it
			t.Fatalf("who had a deadline: %v", err)
		}
		if err := <-follower; !errors.Is(err, client.ErrEmpty) {
			t.Fatalf("who had none: %v", err)
		}
	}
}
