package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

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
