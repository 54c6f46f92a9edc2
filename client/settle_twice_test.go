package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
)

// Two calls for one job that are made at once are done one after the other, however they travel: one
// of them gets what it would have got a moment later, and the job counts once.
func TestTwoSettlementsOfOneJob(t *testing.T) {
	f := start(t)
	c := f.patient()
	check(t, c.WarmUp(t.Context()))
	for name, settle := range verbs {
		t.Run(name, func(t *testing.T) {
			f := f.with(t)
			f.seed()
			const blockers = client.MaxSettleCalls
			list := f.reserveAll(c, blockers+1)
			d := list[blockers]
			var ends []chan error
			gather := func(call func() error) {
				end := make(chan error, 1)
				ends = append(ends, end)
				go func() { end <- call() }()
				await(t, len(ends), blockers, c.Settlements)
			}
			f.redis.Hang()
			for _, d := range list[:blockers] {
				gather(func() error { return settle(t.Context(), d) })
			}
			for range 2 { // they go together, as all round trips are under way
				again := c.Delivery(d.Topic, d.ID, d.Token)
				gather(func() error { return settle(t.Context(), again) })
			}
			f.redis.Resume()
			late := 0
			for i, end := range ends {
				err := arrival(t, end)
				if i >= blockers && errors.Is(err, client.ErrLeaseLost) {
					late++
				} else if err != nil {
					t.Errorf("call %d: %v", i, err)
				}
			}
			if want := map[bool]int{true: 0, false: 1}[name == "Extend"]; late != want {
				t.Errorf("%d calls were too late, want %d", late, want)
			}
			got := f.state()
			left := map[string]string{"t": "0"}
			if name == "Extend" {
				left["t"] = fmt.Sprint(blockers + 1)
			}
			if n := len(got.Reserved); fmt.Sprint(n) != left["t"] {
				t.Errorf("%d are reserved, want %s", n, left["t"])
			}
			if n := f.reservedCount("t"); n != left["t"] {
				t.Errorf("%s count as reserved, want %s", n, left["t"])
			}
		})
	}
}

// Calls of two kinds for one job that are made at once do not wait for each other: one of them
// settles it, and the job counts once.
func TestTwoKindsOfSettlementsOfOneJob(t *testing.T) {
	f := start(t)
	c := f.patient()
	check(t, c.WarmUpAll(t.Context()))
	kinds := []string{"Ack", "Retry", "Extend", "Bury"}
	for i, one := range kinds {
		for _, other := range kinds[i+1:] {
			t.Run(one+" and "+other, func(t *testing.T) {
				f := f.with(t)
				f.seed()
				d := f.reserveAll(c, 1)[0]
				f.redis.Hang()
				errs := map[string]error{}
				ends := map[string]chan error{one: make(chan error, 1), other: make(chan error, 1)}
				for name, end := range ends {
					go func() { end <- verbs[name](t.Context(), c.Delivery(d.Topic, d.ID, d.Token)) }()
				}
				await(t, 2, 2, c.Settlements)
				f.redis.Resume()
				for name, end := range ends {
					if errs[name] = arrival(t, end); errs[name] != nil && !errors.Is(errs[name], client.ErrLeaseLost) {
						t.Errorf("%s: %v", name, errs[name])
					}
				}
				delete(errs, "Extend") // which may come first, and change nothing for the other
				won := 0
				for _, err := range errs {
					if err == nil {
						won++
					}
				}
				if won != 1 {
					t.Errorf("%d calls settled the job: %v", won, errs)
				}
				if n := f.reservedCount("t"); n != "0" {
					t.Errorf("%s count as reserved, want 0", n)
				}
			})
		}
	}
}

// reservedCount is how many jobs of the topic count as reserved, in Redis itself.
func (f *fixture) reservedCount(topic string) string {
	f.t.Helper()
	n, _ := f.do("HGET", "delayer:reserved", topic).([]byte)
	if n == nil {
		return "0"
	}
	return string(n)
}

// A batch in which a job stands twice, under another Delivery each, is the same as two calls.
func TestBatchWithAJobTwice(t *testing.T) {
	f := start(t)
	const n = 300 // more than one call's
	list := f.reserveAll(f.Client, n)
	twice := make([]*client.Delivery, 0, 2*n)
	for i, d := range list {
		if i%2 == 0 {
			twice = append(twice, d, f.Delivery(d.Topic, d.ID, d.Token)) // side by side
		} else {
			twice = append(twice, d)
		}
	}
	for i, d := range list { // and far away
		if i%2 == 1 {
			twice = append(twice, f.Delivery(d.Topic, d.ID, d.Token))
		}
	}
	if _, err := f.ExtendBatch(t.Context(), twice, time.Hour); err != nil {
		t.Error(err)
	}
	results, err := f.AckBatch(t.Context(), twice)
	if !errors.Is(err, client.ErrLeaseLost) || len(results) != 2*n {
		t.Fatalf("%d results, %v", len(results), err)
	}
	seen := map[string]bool{}
	for i, r := range results {
		if seen[r.ID] != errors.Is(r.Err, client.ErrLeaseLost) || !seen[r.ID] && r.Err != nil {
			t.Errorf("result %d is %+v", i, r)
		}
		seen[r.ID] = true
	}
	if got := f.reservedCount("t"); got != "0" {
		t.Errorf("%s count as reserved, want 0", got)
	}
	if acked := string(f.do("GET", "delayer:acked").([]byte)); acked != fmt.Sprint(n) {
		t.Errorf("%s are acknowledged, want %d", acked, n)
	}
	f.expect(state{})
}

// An Extend that its deadline ends, and the round trip that goes on, do not touch the same.
func TestExtendEndedByItsDeadline(t *testing.T) {
	f := start(t)
	f.push("a", "t")
	c := f.patient()
	check(t, c.WarmUp(t.Context()))
	d, err := c.Reserve(t.Context(), 0, time.Hour, "t")
	reserve(d, err).expect(t, "a")
	f.warm(verbs["Extend"])
	end := d.Deadline()
	f.redis.Hang()
	ended := make(chan error, 1)
	go func() { ended <- d.Extend(deadline(t, 20*time.Millisecond), time.Minute) }()
	if err := arrival(t, ended); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the deadline's", err)
	}
	earlier := d.Deadline()
	if !earlier.Before(end) {
		t.Errorf("deadline %v, want the earlier one of both", earlier)
	}
	go func() { ended <- d.Extend(deadline(t, 20*time.Millisecond), 2*time.Hour) }()
	if err := arrival(t, ended); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the deadline's", err)
	}
	if still := d.Deadline(); !still.Equal(earlier) {
		t.Errorf("deadline %v after a longer one that may not have been done, want %v", still, earlier)
	}
	f.redis.Resume()
	await(t, 0, 0, c.Settlements)
	if due := f.due("a"); due == float64(end.UnixMicro())/1e6 {
		t.Errorf("the lease ends at %f, want what an Extend has made of it", due)
	}
}

// Settlements that go together are about 1 MiB at most, and none is left behind.
func TestSettlementsAreBoundedInBytes(t *testing.T) {
	f := start(t)
	c := f.patient()
	check(t, c.WarmUp(t.Context()))
	const blockers, retries = client.MaxSettleCalls, 200
	list := f.reserveAll(c, blockers+retries)
	text := errors.New(strings.Repeat("x", 8<<10)) // 1.6 MiB in all
	before := f.info("commandstats", "cmdstat_evalsha:calls=")
	f.redis.Hang()
	ended := make(chan error, len(list))
	for n, d := range list {
		go func() {
			ended <- d.Retry(t.Context(), time.Hour, client.Cause(text))
		}()
		await(t, n+1, blockers, c.Settlements)
	}
	f.redis.Resume()
	for range list {
		if err := arrival(t, ended); err != nil {
			t.Error(err)
		}
	}
	if calls := f.info("commandstats", "cmdstat_evalsha:calls=") - before; calls != blockers+2 {
		t.Errorf("%d calls, want %d", calls, blockers+2)
	}
	if n := len(f.state().Pool); n != len(list) {
		t.Errorf("%d jobs wait, want %d", n, len(list))
	}
}
