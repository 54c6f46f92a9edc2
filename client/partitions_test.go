package client_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
)

// inPartitions starts a Client with this many partitions.
func inPartitions(t *testing.T, n int) *fixture {
	f := startPartitions(t, n)
	f.Client = f.open()
	return f
}

// delayedOf returns n jobs of topic t, with and without braces in their IDs.
func delayedOf(n int) []client.Item {
	jobs := make([]client.Item, n)
	for i := range jobs {
		jobs[i].Message = client.Message{ID: fmt.Sprintf([]string{"%d", "{%d}", "a{}%d", "}%d{"}[i%4], i), Topic: "t", Body: "b"}
	}
	return jobs
}

// An error affects its own chunk, and no other partition's. Results come in the order of the jobs.
func TestPushBatchOverPartitions(t *testing.T) {
	t.Parallel()
	f := inPartitions(t, 5)
	bad := store.PartitionOf("bad", 5)
	for _, c := range []struct {
		name   string
		harm   func()
		result func(id string) error // of a job in that partition
	}{
		{"none", func() {}, func(string) error { return nil }},
		{"a job that exists", func() { f.push("bad", "t") }, func(id string) error {
			if id == "bad" {
				return client.ErrExists
			}
			return nil
		}},
		{"a bucket that is none", func() { f.Do("SET", f.bucketOf("bad"), "text") }, func(id string) error {
			if id == "bad" {
				return errWrongType
			}
			return client.ErrOtherFailed
		}},
		{"a pool that is none", func() { f.Do("SET", f.keyOf("bad", "job_pool"), "text") }, func(string) error { return errWrongType }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := f.with(t)
			f.Flush()
			c.harm()
			jobs := slices.Insert(delayedOf(100), 50, client.Item{Message: client.Message{ID: "bad", Topic: "t", Body: "b"}})
			results, _ := f.PushBatch(t.Context(), jobs, client.IfExists(client.Refuse()))
			for i, r := range results {
				var want error
				if store.PartitionOf(jobs[i].ID, 5) == bad {
					want = c.result(jobs[i].ID)
				}
				if r.ID != jobs[i].ID || (want == nil) != (r.Err == nil) || want != errWrongType && !errors.Is(r.Err, want) {
					t.Errorf("job %d, %s: %+v, want %v", i, jobs[i].ID, r, want)
				}
				_, err := f.Get(t.Context(), r.ID)
				if exists := err == nil; exists != (r.Err == nil || errors.Is(r.Err, client.ErrExists)) {
					t.Errorf("job %s exists: %v (%v)", r.ID, exists, r.Err)
				}
			}
		})
	}
}

// errWrongType stands for an error of Redis.
var errWrongType = errors.New("WRONGTYPE")

// Calls of Fetch take turns with the partitions, and a batch may have Deliveries of several.
func TestBatchesOfPartitions(t *testing.T) {
	t.Parallel()
	f := inPartitions(t, 5)
	_, err := f.PushBatch(t.Context(), delayedOf(200))
	check(t, err)
	list := clienttest.All(t, f.Client, clienttest.Ready("t", 200, time.Hour))
	results, err := f.AckBatch(t.Context(), list[:100])
	check(t, err)
	for i, r := range results {
		if r.ID != list[i].ID {
			t.Errorf("result %d is of %s, want %s", i, r.ID, list[i].ID)
		}
	}
	_, err = f.ExtendBatch(t.Context(), list[100:], time.Minute)
	check(t, err)
	if left := f.State(); len(list) != 200 || len(left.Reserved) != 100 {
		t.Errorf("%d jobs were reserved, and %d still are", len(list), len(left.Reserved))
	}

	_, err = f.PushBatch(t.Context(), delayedOf(100)) // pushed again, and therefore ready
	check(t, err)
	served := map[int]bool{}
	for range 60 { // at random: that one is left out has odds of 1 to 100,000
		got, err := f.Fetch(t.Context(), clienttest.Popped("t", 1))
		check(t, err)
		served[store.PartitionOf(got[0].ID, 5)] = true
	}
	if len(served) != 5 {
		t.Errorf("60 of 100 jobs came from partitions %v", served)
	}
}

// The newest dead letter of all partitions comes first, and a call for all letters reaches each partition.
func TestDeadOfPartitions(t *testing.T) {
	t.Parallel()
	f := inPartitions(t, 5)
	_, err := f.PushBatch(t.Context(), delayedOf(500))
	check(t, err)
	for _, d := range clienttest.All(t, f.Client, clienttest.Ready("t", 250, time.Hour)) {
		check(t, d.Bury(t.Context(), errors.New("why")))
	}
	var letters []client.JobInfo
	for l, err := range f.Dead(t.Context(), "t") {
		check(t, err)
		letters = append(letters, l)
	}
	newestFirst := func(a, b client.JobInfo) int { return b.Due.Compare(a.Due) }
	if len(letters) != 500 || !slices.IsSortedFunc(letters, newestFirst) {
		t.Errorf("%d dead letters, in order: %v", len(letters), slices.IsSortedFunc(letters, newestFirst))
	}
	stats, err := f.Stats(t.Context())
	if want := (client.TopicStats{Topic: "t", Dead: 500}); err != nil || !slices.Equal(stats.Topics, []client.TopicStats{want}) {
		t.Errorf("stats: %+v, %v", stats, err)
	}
	if n, err := f.RequeueAll(t.Context(), "t"); n != 500 || err != nil {
		t.Errorf("%d were requeued, %v, want 500", n, err)
	}
	for _, d := range clienttest.All(t, f.Client, clienttest.Ready("t", 250, time.Hour))[:400] {
		check(t, d.Bury(t.Context(), errors.New("why")))
	}
	if n, err := f.DropAll(t.Context(), "t"); n != 400 || err != nil {
		t.Errorf("%d were dropped, %v, want 400", n, err)
	}
	if left := f.State(); len(left.Letters) != 0 || len(left.Buckets) != 100 {
		t.Errorf("%d dead letters and %d jobs", len(left.Letters), len(left.Buckets))
	}
}
