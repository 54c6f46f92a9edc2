package client_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
)

// jobs makes n jobs of one topic, named by number from first on.
func jobs(first, n int, topic string, delay time.Duration) []client.Item {
	list := make([]client.Item, n)
	for i := range list {
		list[i] = client.Item{Message: client.Message{ID: fmt.Sprintf("%04d", first+i), Topic: topic, Body: "b"}, Delay: delay}
	}
	return list
}

func idsOf(list []client.Item) []string {
	ids := make([]string, len(list))
	for i, job := range list {
		ids[i] = job.ID
	}
	return ids
}

// A chunk with a job that cannot be stored changes nothing, and the other chunks are stored. A refused job that exists
// does not affect the other jobs of its chunk.
func TestPushBatchIsAllOrNothingPerChunk(t *testing.T) {
	for name, tt := range map[string]struct {
		seed   []string
		other  map[string]string
		stored func(i int) bool
		cause  func(error) bool
	}{
		"exists": {
			waiting("0300", "t"), nil,
			func(i int) bool { return i != 300 },
			func(err error) bool { return errors.Is(err, client.ErrExists) },
		},
		"wrong type": {
			[]string{"SET delayer:job_bucket:0300 x"}, map[string]string{"delayer:job_bucket:0300": "string"},
			func(i int) bool { return i < 250 || i >= 500 },
			func(err error) bool { return err != nil && !errors.Is(err, client.ErrOtherFailed) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, undivided)
			f.seed(tt.seed...)
			want := f.State()
			want.Other = tt.other
			batch := jobs(0, 600, "t", 2*time.Hour)
			results, err := f.PushBatch(t.Context(), batch, client.IfExists(client.Refuse()))
			if expectText(t, "PushBatch", err, " of 600 jobs are not stored: "); !tt.cause(err) {
				t.Errorf("error %v", err)
			}
			for i, r := range results {
				switch stored := tt.stored(i); {
				case stored && r.Err == nil:
					want.Pool, want.Buckets[r.ID] = append(want.Pool, r.ID), "t b"
				case i == 300 && tt.cause(r.Err), !stored && i != 300 && errors.Is(r.Err, client.ErrOtherFailed):
				default:
					t.Errorf("result %d: %+v", i, r)
				}
			}
			f.Expect(want)
		})
	}
}

// A Fetch that pops takes the jobs out of Redis, in order. They are settled.
func TestFetchPops(t *testing.T) {
	f := start(t, undivided)
	all := jobs(0, 700, "t", 0)
	check(t, errOf(f.PushBatch(t.Context(), all)))
	var got []string
	for _, n := range []int{250, 249, 1, 250} {
		batch, err := f.Fetch(t.Context(), clienttest.Popped("t", n))
		if err != nil || len(batch) != min(n, 700-len(got)) {
			t.Fatalf("%d jobs, error %v", len(batch), err)
		}
		got = append(got, deliveryIDs(batch)...)
		expectErr(t, "Ack", batch[0].Ack(t.Context()), client.ErrLeaseLost)
		expectErr(t, "Extend", batch[0].Extend(t.Context(), time.Minute), client.ErrLeaseLost)
	}
	if !slices.Equal(got, idsOf(all)) {
		t.Errorf("in another order: %q", got)
	}
	expectErr(t, "empty queue", errOf(f.Fetch(t.Context(), clienttest.Popped("t", 1))), client.ErrEmpty)
	f.Expect(state{})
}

func messageIDs(messages []client.Message) []string {
	ids := make([]string, len(messages))
	for i, m := range messages {
		ids[i] = m.ID
	}
	return ids
}

// All jobs of a batch of any size are stored, including a single one in the last chunk, and each has its result.
func TestPushBatchSizes(t *testing.T) {
	f := start(t, undivided)
	for _, n := range []int{0, 1, 2, 249, 250, 251, 499, 500, 501, 751} {
		f.Flush()
		readies, waits := jobs(0, n/2, "u", 0), jobs(n/2, n-n/2, "t", time.Hour)
		results, err := f.PushBatch(t.Context(), append(readies, waits...))
		check(t, err)
		want := state{Pool: idsOf(waits), Ready: queues{"u": idsOf(readies)}, Buckets: buckets{}}
		if n < 2 {
			want.Ready = nil
		}
		for i, job := range append(readies, waits...) {
			want.Buckets[job.ID] = job.Topic + " b"
			if results[i] != (client.Result{ID: job.ID, Outcome: client.OutcomeCreated}) {
				t.Errorf("%d jobs: result %d: %+v", n, i, results[i])
			}
		}
		if len(results) != n {
			t.Errorf("%d jobs: %d results", n, len(results))
		}
		f.Expect(want)
	}
}

// A chunk has about 1 MiB of bodies at most, so that it does not block Redis for long. A larger body is a chunk of its
// own.
func TestPushBatchIsBoundedInBytes(t *testing.T) {
	const k = 1 << 10
	f := start(t, alone, undivided)
	for _, c := range []struct {
		bodies []int
		calls  int
	}{
		{slices.Repeat([]int{100 * k}, 10), 1},
		{slices.Repeat([]int{100 * k}, 11), 2},
		{slices.Repeat([]int{100 * k}, 25), 3},
		{[]int{3000 * k, 10}, 2},
		{[]int{10, 3000 * k, 10}, 3},
		{[]int{1024 * k}, 1},
	} {
		var batch []client.Item
		for _, size := range c.bodies {
			batch = append(batch, client.Item{Message: client.Message{Topic: "t", Body: strings.Repeat("x", size)}, Delay: time.Hour})
		}
		f.PushBatch(t.Context(), jobs(0, 1, "t", time.Hour)) // the script is known then
		before := f.Calls("evalsha")
		_, err := f.PushBatch(t.Context(), batch)
		check(t, err)
		if calls := f.Calls("evalsha") - before; calls != c.calls {
			t.Errorf("%d bodies, the first of %d KiB: %d calls, want %d", len(c.bodies), c.bodies[0]/k, calls, c.calls)
		}
	}
}

// A job's own options override those of the call, and apply to no other job.
func TestPushBatchOptionsOfAJob(t *testing.T) {
	f := start(t)
	f.push("b", "t")
	list := jobs(0, 3, "t", time.Hour)
	list[0].Options = []client.PushOption{client.JobOptions{MaxAttempts: 3}}
	list[1].ID, list[1].Options = "b", []client.PushOption{client.IfExists(client.Refuse())}
	results, err := f.PushBatch(t.Context(), list, client.JobOptions{MaxAttempts: 7})
	expectErr(t, "PushBatch", err, client.ErrExists)
	expectErrs(t, results, nil, client.ErrExists, nil)
	for id, want := range map[string]int{"0000": 3, "b": 0, "0002": 7} {
		if job, err := f.Get(t.Context(), id); err != nil || job.Options.MaxAttempts != want {
			t.Errorf("%s: %+v, %v, want %d attempts", id, job, err, want)
		}
	}
	list[2].Options = []client.PushOption{client.JobOptions{Lease: -1}}
	err = errOf(f.PushBatch(t.Context(), list))
	expectErr(t, "PushBatch", err, client.ErrInvalid)
	expectText(t, "PushBatch", err, "job 2: invalid lease")
}
