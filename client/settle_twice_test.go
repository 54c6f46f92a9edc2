package client_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
)

// Two concurrent calls for one job are done one after the other, whatever batches they are in. One of them gets the
// result of a later call, and the job counts once.
func TestTwoSettlementsOfOneJob(t *testing.T) {
	f := start(t, alone, undivided)
	c := f.patient()
	for name, settle := range verbs {
		t.Run(name, func(t *testing.T) {
			f := f.with(t)
			f.seed()
			const blockers = client.RoundTrips
			list := f.reserveAll(c, blockers+1)
			twice := list[blockers]
			var calls []func() error
			for _, d := range append(list[:blockers:blockers], twice, twice) { // both wait for the next batch, because all that may be in flight are
				d = c.Delivery(d.Topic, d.ID, d.Token)
				calls = append(calls, func() error { return settle(t.Context(), d) })
			}
			errs, _ := f.gather(blockers, c.Settlements, calls).release()
			check(t, errors.Join(errs[:blockers]...))
			left := "0"
			if name == "Extend" {
				left = fmt.Sprint(blockers + 1)
				check(t, errors.Join(errs[blockers:]...))
			} else if one, other := errs[blockers], errs[blockers+1]; cmp.Or(one, other) == nil || one != nil && other != nil || !errors.Is(cmp.Or(one, other), client.ErrLeaseLost) {
				t.Errorf("the two calls: %v, %v, want one ErrLeaseLost", one, other)
			}
			if n, count := len(f.State().Reserved), f.reservedCount("t"); fmt.Sprint(n) != left || count != left {
				t.Errorf("%d are reserved, %s count as reserved, want %s", n, count, left)
			}
		})
	}
}

// reservedCount returns how many jobs of the topic count as reserved in Redis.
func (f *fixture) reservedCount(topic string) string {
	f.TB.Helper()
	n, _ := f.Do("HGET", "delayer:reserved", topic).([]byte)
	if n == nil {
		return "0"
	}
	return string(n)
}

// A batch with two Deliveries of one job is the same as two calls.
func TestBatchWithAJobTwice(t *testing.T) {
	t.Parallel()
	f := start(t, undivided)
	const n = 300 // more than a single call settles
	var twice, far []*client.Delivery
	for i, d := range f.reserveAll(f.Client, n) {
		again := f.Delivery(d.Topic, d.ID, d.Token)
		if twice = append(twice, d); i%2 == 0 {
			twice = append(twice, again) // next to each other
		} else {
			far = append(far, again)
		}
	}
	twice = append(twice, far...)
	check(t, errOf(f.ExtendBatch(t.Context(), twice, time.Hour)))
	results, err := f.AckBatch(t.Context(), twice)
	expectErr(t, "AckBatch", err, client.ErrLeaseLost)
	seen := map[string]bool{}
	var want []error
	for _, d := range twice {
		want = append(want, map[bool]error{true: client.ErrLeaseLost}[seen[d.ID]])
		seen[d.ID] = true
	}
	expectErrs(t, results, want...)
	acked := string(f.Do("GET", "delayer:acked").([]byte))
	if count := f.reservedCount("t"); count != "0" || acked != fmt.Sprint(n) {
		t.Errorf("%s count as reserved, want 0; %s are acknowledged, want %d", count, acked, n)
	}
	f.Expect(state{})
}

// If a deadline ends an Extend, its batch goes on, and there is no data race between them.
func TestExtendEndedByItsDeadline(t *testing.T) {
	t.Parallel()
	f := start(t, alone)
	f.push("a", "t")
	c := f.patient()
	d := f.reserveBy(c, "t", "a", time.Hour)
	f.warm(verbs["Extend"])
	end := d.Deadline()
	extend := func(lease time.Duration) time.Time {
		t.Helper()
		ended := later(func() error { return d.Extend(deadline(t, 500*time.Millisecond), lease) })
		expectErr(t, "Extend", arrival(t, ended), context.DeadlineExceeded)
		return d.Deadline()
	}
	f.Hang()
	earlier := extend(time.Minute)
	if !earlier.Before(end) {
		t.Errorf("deadline %v, want the earlier one of both", earlier)
	}
	if still := extend(2 * time.Hour); !still.Equal(earlier) {
		t.Errorf("deadline %v after a longer one that may not have been done, want %v", still, earlier)
	}
	f.Continue()
	await(t, 0, 0, c.Settlements)
	if due := f.Due("a"); due == float64(end.UnixMicro())/1e6 {
		t.Errorf("the lease ends at %f, want what an Extend has made of it", due)
	}
}

// A batch of settlements has at most about 1 MiB, and no settlement is skipped.
func TestSettlementsAreBoundedInBytes(t *testing.T) {
	f := start(t, alone, undivided)
	c := f.patient()
	const blockers, retries = client.RoundTrips, 200
	long := errors.New(strings.Repeat("x", 8<<10)) // 1.6 MiB in all
	var calls []func() error
	for _, d := range f.reserveAll(c, blockers+retries) {
		calls = append(calls, func() error { return d.Retry(t.Context(), time.Hour, long) })
	}
	errs, scripts := f.gather(blockers, c.Settlements, calls).release()
	check(t, errors.Join(errs...))
	if n := len(f.State().Pool); scripts != blockers+2 || n != len(calls) {
		t.Errorf("%d calls, want %d; %d jobs wait, want %d", scripts, blockers+2, n, len(calls))
	}
}
