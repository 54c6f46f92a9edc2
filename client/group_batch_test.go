package client_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// A batch may mix pushes to groups with other pushes, and may have several pushes to one group.
func TestGroupBatch(t *testing.T) {
	for _, partitions := range []int{1, 5} {
		f := inPartitions(t, partitions)
		batch := jobs(0, 3, "u", time.Hour)
		to := func(key string) []client.PushOption {
			return []client.PushOption{client.Group{Key: key, Max: 200, Longest: time.Hour}}
		}
		for n := range 500 {
			batch = append(batch, client.Item{Message: client.Message{Topic: "t", Body: fmt.Sprint(n)}, Options: to("k")})
		}
		once := client.Item{Message: client.Message{ID: "a", Topic: "t", Body: `"a"`}, Options: append(to("other"), client.IfExists(client.Once(time.Hour)))}
		batch = append(batch, once)
		results, err := f.PushBatch(t.Context(), batch)
		check(t, err)
		bodies := map[string][]string{}
		for i, r := range results[3:503] {
			bodies[r.ID] = append(bodies[r.ID], fmt.Sprint(i))
			if want := map[bool]client.Outcome{true: client.OutcomeCreated, false: client.OutcomeAdded}[i%200 == 0]; r.Outcome != want {
				t.Fatalf("push %d: %+v, want %s", i, r, want)
			}
		}
		want := state{Ready: queues{}, Buckets: buckets{"0000": "u b", "0001": "u b", "0002": "u b", results[503].ID: `t ["a"]`}}
		for id, elements := range bodies {
			want.Buckets[id] = "t [" + strings.Join(elements, ",") + "]"
		}
		got := f.State()
		if !maps.Equal(got.Buckets, want.Buckets) || len(bodies) != 3 {
			t.Errorf("got %v, want %v", got.Buckets, want.Buckets)
		}
		again, err := f.PushBatch(t.Context(), []client.Item{once})
		if r := again[0]; r.ID != "a" || r.Outcome != client.OutcomeRefused || !errors.Is(r.Err, client.ErrExists) || !errors.Is(err, client.ErrExists) {
			t.Errorf("pushed once more: %+v, %v", again, err)
		}
	}
}

// An ID with Once counts once per group. A batch may have it once for each of several groups; twice for one group is
// invalid.
func TestBatchOfOneIDInGroups(t *testing.T) {
	f := start(t)
	in := func(key string) client.Item {
		return client.Item{Message: client.Message{ID: "a", Topic: "t", Body: "1"}, Options: []client.PushOption{groupOf(key, longGroup), client.IfExists(client.Once(time.Hour))}}
	}
	results, err := f.PushBatch(t.Context(), []client.Item{in("j"), in("k")})
	check(t, err)
	for i, r := range results {
		if r.Outcome != client.OutcomeCreated || r.ID == results[1-i].ID {
			t.Errorf("job %d: %+v", i, r)
		}
	}
	f.Expect(state{Pool: []string{results[0].ID, results[1].ID}, Once: []string{"{t:j}a", "{t:k}a"}, Buckets: buckets{results[0].ID: "t [1]", results[1].ID: "t [1]"}})
	_, err = f.PushBatch(t.Context(), []client.Item{in("j"), in("k"), in("j")})
	expectText(t, "twice in one group", err, `job 2: invalid id: "a" is that of job 0, too`)
}

// largeGroups starts groups of about 300 KiB, with the keys 0, 1, ….
func (f *fixture) largeGroups(n int) (body string) {
	f.TB.Helper()
	body = `"` + strings.Repeat("x", 300<<10) + `"`
	for key := range n {
		f.group(fmt.Sprint(key), body, longGroup)
	}
	return body
}

// A batch to large groups goes to Redis in calls that each write about 1 MiB, and keeps its order.
func TestBatchToLargeGroups(t *testing.T) {
	f := start(t, alone)
	const keys, each = 20, 15 // more than one call to Redis may have
	first := f.largeGroups(keys)
	var batch []client.Item
	for n := range keys * each {
		d := client.Item{Message: client.Message{Topic: "t", Body: fmt.Sprint(n / keys)}}
		d.Options = []client.PushOption{groupOf(fmt.Sprint(n%keys), longGroup)}
		batch = append(batch, d)
	}
	before := f.Calls("evalsha")
	results, err := f.PushBatch(t.Context(), batch)
	check(t, err)
	if calls := f.Calls("evalsha") - before; calls < keys*300/1024 {
		t.Errorf("%d calls for %d groups of 300 KiB", calls, keys)
	}
	buckets, want := f.State().Buckets, "t ["+first
	for n := range each {
		want += fmt.Sprint(",", n)
	}
	for i, r := range results {
		if got := buckets[r.ID]; got != want+"]" || r.Outcome != client.OutcomeAdded {
			t.Fatalf("push %d: %s; its group ends with %s, want %s]", i, r.Outcome, got[max(len(got)-100, 0):], want[len(want)-40:])
		}
	}
}

// Pushes to large groups that come while others are in flight share batches, up to a size limit.
func TestPushesToLargeGroupsShareRoundTrips(t *testing.T) {
	f := start(t, alone, undivided)
	const keys = 20
	first := f.largeGroups(keys)
	c := f.patient()
	ended, cancel := context.WithCancel(t.Context())
	var calls []func() error
	for key := range keys {
		ctx := t.Context()
		if key == keys-1 {
			ctx = ended
		}
		calls = append(calls, func() error {
			return errOf(c.Push(ctx, client.Message{Topic: "t", Body: "1"}, 0, groupOf(fmt.Sprint(key), longGroup)))
		})
	}
	g := f.gather(client.RoundTrips, c.PushesToGroups, calls)
	cancel()
	await(t, keys-1, client.RoundTrips, c.PushesToGroups)
	errs, scripts := g.release()
	check(t, errors.Join(errs[:keys-1]...))
	expectErr(t, "left", errs[keys-1], context.Canceled)
	if scripts < keys*300/1024 || scripts >= keys-1 {
		t.Errorf("%d calls for %d groups of 300 KiB", scripts, keys)
	}
	for id, bucket := range f.State().Buckets {
		want := "t [" + first + ",1]"
		if strings.HasPrefix(id, fmt.Sprintf("{t:%d}", keys-1)) {
			want = "t [" + first + "]"
		}
		if bucket != want {
			t.Errorf("%s has %d bytes, want %d", id, len(bucket), len(want))
		}
	}
}

// A push that fails also stops the other pushes of its chunk and no others, for one chunk or more.
func TestBatchToManyGroupsIsAllOrNothing(t *testing.T) {
	f := start(t, undivided)
	const keys, together = 150, 64
	for _, broken := range []int{10, 70, 140} {
		f.Flush()
		f.Do("SET", fmt.Sprint("delayer:group:{t:", broken, "}"), "x")
		var batch []client.Item
		for key := range keys {
			batch = append(batch, client.Item{Message: client.Message{Topic: "t", Body: "1"}, Options: []client.PushOption{groupOf(fmt.Sprint(key), longGroup)}})
		}
		results, err := f.PushBatch(t.Context(), batch)
		expectText(t, "the batch", err, "WRONGTYPE")
		groups := 0
		for i, r := range results {
			chunk := i / together
			if i > broken { // these pushes cost nothing
				chunk = (i - 1) / together
			}
			switch isIts := chunk == broken/together; {
			case i == broken && r.Err != nil && strings.Contains(r.Err.Error(), "WRONGTYPE"):
			case i != broken && isIts && errors.Is(r.Err, client.ErrOtherFailed):
			case !isIts && r.Err == nil:
				groups++
			default:
				t.Errorf("push %d: %+v, with %d broken", i, r, broken)
			}
		}
		if n := len(f.State().Buckets); n != groups {
			t.Errorf("%d groups, want %d", n, groups)
		}
	}
}

// If a connection breaks between two calls of a batch, the result lists what the first call has pushed.
func TestCutOfABatchToManyGroups(t *testing.T) {
	f := start(t, undivided, onePool)
	cutter := redistest.StartCutter(t, f.Addr)
	c := f.openPool(client.PoolOptions{Addr: cutter.Addr})
	const keys, together = 100, 64
	var batch []client.Item
	for key := range keys {
		batch = append(batch, client.Item{Message: client.Message{Topic: "t", Body: "1"}, Options: []client.PushOption{groupOf(fmt.Sprint(key), longGroup)}})
	}
	for _, answered := range []bool{false, true} {
		f.Flush()
		check(t, errOf(c.PushBatch(t.Context(), batch))) // opens a connection, and loads the script
		f.Flush()
		cutter.Arm(2, answered)
		results, err := c.PushBatch(t.Context(), batch)
		if commands := cutter.Commands(); err == nil || len(commands) != 2 {
			t.Fatalf("%v, after %q", err, commands)
		}
		for i, r := range results {
			if isStored := i < together; (r.Err == nil) != isStored || (r.Outcome == client.OutcomeCreated) != isStored {
				t.Errorf("push %d: %+v", i, r)
			}
		}
		if n, want := len(f.State().Buckets), map[bool]int{false: together, true: keys}[answered]; n != want {
			t.Errorf("%d groups, want %d", n, want)
		}
		cutter.Arm(0, false)
	}
}
