package store

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// jobOf is the job that ready and waits seed.
func jobOf(id, topic string) Job { return Job{ID: id, Topic: topic, Body: "body of " + id} }

func stringQueue(topic string) buckets { return buckets{"delayer:ready_queue:" + topic: "string"} }

var popCases = []struct {
	name   string
	seed   [][]command
	topics []string // default: t
	job    Job      // none: ErrEmpty, or the reason
	ghosts []string
	reason string
	want   redistest.State
}{
	{name: "no queue"},
	{
		name: "first in, first out", seed: [][]command{ready("a", "t"), ready("b", "t"), ready("c", "t"), waits("w", "t", second)},
		job:  jobOf("a", "t"),
		want: redistest.State{Pool: []string{"w"}, Ready: queues{"t": {"b", "c"}}, Buckets: buckets{"w": "t body of w", "b": "t body of b", "c": "t body of c"}},
	},
	{
		name: "ghosts in front", seed: [][]command{entry("g", "t"), entry("h", "t"), ready("a", "t"), entry("i", "t")},
		job: jobOf("a", "t"), ghosts: []string{"g", "h"},
		want: redistest.State{Ready: queues{"t": {"i"}}},
	},
	{
		name: "postponed", seed: [][]command{waits("p", "t", 60*second), entry("p", "t"), ready("a", "t")},
		job:  jobOf("a", "t"),
		want: redistest.State{Pool: []string{"p"}, Buckets: buckets{"p": "t body of p"}},
	},
	{
		name: "of another topic", seed: [][]command{content("o", "u"), entry("o", "t"), ready("a", "t"), ready("b", "u")},
		job:  jobOf("a", "t"),
		want: redistest.State{Ready: queues{"u": {"b", "o"}}, Buckets: buckets{"o": "u body of o", "b": "u body of b"}},
	},
	{
		name: "of another topic that is asked for next", seed: [][]command{content("o", "u"), entry("o", "t")}, topics: []string{"t", "u"},
		job: jobOf("o", "u"),
	},
	{
		name: "of another topic whose queue is broken", seed: [][]command{content("o", "u"), entry("o", "t"), ready("a", "t"), text("ready_queue:u")},
		job:  jobOf("a", "t"),
		want: redistest.State{Pool: []string{"o"}, Buckets: buckets{"o": "u body of o"}, Other: stringQueue("u")},
	},
	{
		name: "bucket of the wrong type", seed: [][]command{text("job_bucket:g"), entry("g", "t"), ready("a", "t")},
		job: jobOf("a", "t"), ghosts: []string{"g"},
		want: redistest.State{Other: buckets{"delayer:job_bucket:g": "string"}},
	},
	{
		name: "bucket without a topic", seed: [][]command{{{"HSET", "delayer:job_bucket:g", "body", "b"}}, entry("g", "t"), ready("a", "t")},
		job: jobOf("a", "t"), ghosts: []string{"g"},
		want: redistest.State{Buckets: buckets{"g": " b"}},
	},
	{name: "bucket without a body", seed: [][]command{{{"HSET", "delayer:job_bucket:a", "topic", "t"}}, entry("a", "t")}, job: Job{ID: "a", Topic: "t"}},
	{
		name: "pool of the wrong type", seed: [][]command{ready("a", "t"), ready("b", "t"), text("job_pool")},
		job:  jobOf("a", "t"),
		want: redistest.State{Ready: queues{"t": {"b"}}, Buckets: buckets{"b": "t body of b"}, Other: buckets{"delayer:job_pool": "string"}},
	},
	{
		name: "queue of the wrong type", seed: [][]command{text("ready_queue:t"), ready("a", "u")},
		reason: "WRONGTYPE ready queue delayer:ready_queue:t is a string, not a list",
		want:   redistest.State{Ready: queues{"u": {"a"}}, Buckets: buckets{"a": "u body of a"}, Other: stringQueue("t")},
	},
	{
		name: "queue of the wrong type before one with a job", seed: [][]command{text("ready_queue:t"), ready("a", "u")}, topics: []string{"t", "u"},
		job:  jobOf("a", "u"),
		want: redistest.State{Other: stringQueue("t")},
	},
	{
		name: "queue of the wrong type between empty ones", seed: [][]command{text("ready_queue:u")}, topics: []string{"t", "u", "v"},
		reason: "WRONGTYPE ready queue delayer:ready_queue:u is a string, not a list",
		want:   redistest.State{Other: stringQueue("u")},
	},
	{
		name: "ghosts before a queue of the wrong type", seed: [][]command{entry("g", "t"), text("ready_queue:u"), entry("h", "v")}, topics: []string{"t", "u", "v"},
		ghosts: []string{"g", "h"}, reason: "WRONGTYPE ready queue delayer:ready_queue:u is a string, not a list",
		want: redistest.State{Other: stringQueue("u")},
	},
	{
		name: "the next topic when the first has only ghosts", seed: [][]command{entry("g", "t"), ready("b", "v"), entry("h", "v")}, topics: []string{"t", "u", "v"},
		job: jobOf("b", "v"), ghosts: []string{"g"},
		want: redistest.State{Ready: queues{"v": {"h"}}},
	},
	{name: "a topic twice", seed: [][]command{ready("a", "t")}, topics: []string{"t", "t"}, job: jobOf("a", "t")},
	{name: "1,000 ghosts", seed: [][]command{ghosts("t", 1000), ready("a", "t")}, ghosts: ghostIDs(1000), job: jobOf("a", "t")},
	{name: "1,000 ghosts and nothing else", seed: [][]command{ghosts("t", 1000)}, ghosts: ghostIDs(1000)},
	{
		name: "3,456 ghosts in two topics", seed: [][]command{ghosts("t", 3000), ghosts("u", 456), ready("a", "u"), ready("b", "u")}, topics: []string{"t", "u"},
		ghosts: append(ghostIDs(3000), ghostIDs(456)...), job: jobOf("a", "u"),
		want: redistest.State{Ready: queues{"u": {"b"}}, Buckets: buckets{"b": "u body of b"}},
	},
	{name: "a job behind 2,500 empty topics", seed: [][]command{ready("a", "topic2500")}, topics: manyTopics(2500), job: jobOf("a", "topic2500")},
}

func TestPop(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for _, c := range popCases {
			t.Run(c.name, func(t *testing.T) {
				b.seed(t, c.seed...)
				topics := c.topics
				if topics == nil {
					topics = []string{"t"}
				}
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				job, stale, err := b.pop(ctx, topics)
				switch {
				case c.reason != "":
					b.expectError(t, err, c.reason)
				case reflect.DeepEqual(c.job, Job{}):
					if !errors.Is(err, ErrEmpty) {
						t.Errorf("error %v, want ErrEmpty", err)
					}
				case err != nil:
					t.Error(err)
				}
				if !reflect.DeepEqual(job, c.job) {
					t.Errorf("popped %+v, want %+v", job, c.job)
				}
				if !slices.Equal(stale, c.ghosts) {
					t.Errorf("stale %v, want %v", stale, c.ghosts)
				}
				b.expect(t, c.want)
			})
		}
	}, alone)
}

func manyTopics(n int) []string {
	topics := make([]string, n)
	for i := range topics {
		topics[i] = fmt.Sprint("topic", i+1)
	}
	return topics
}

// TestPopOnce lets several consumers empty a queue: each job is delivered once.
func TestPopOnce(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t)
	const jobs, consumers = 2000, 8
	b.seed(t, []command{{"EVAL", `for i = 1, tonumber(ARGV[1]) do
		redis.call('HSET', 'delayer:job_bucket:' .. i, 'topic', 't', 'body', 'b')
		redis.call('LPUSH', 'delayer:ready_queue:t', i)
	end`, 0, jobs}})
	results := make(chan string, 2*jobs)
	for range consumers {
		go func() {
			defer func() { results <- "" }()
			for {
				job, _, err := b.pop(t.Context(), []string{"t"})
				if err != nil {
					if !errors.Is(err, ErrEmpty) {
						t.Error(err)
					}
					return
				}
				results <- job.ID
			}
		}()
	}
	got := map[string]int{}
	for done := 0; done < consumers; {
		if id := <-results; id == "" {
			done++
		} else {
			got[id]++
		}
	}
	if len(got) != jobs {
		t.Errorf("%d jobs came, want %d", len(got), jobs)
	}
	for id, times := range got {
		if times != 1 {
			t.Errorf("job %s came %d times", id, times)
		}
	}
	b.expect(t, redistest.State{})
}

// A pop returns about 1 MiB at most and reports that there is more. A single job is returned whatever its size.
func TestPopIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	const k = 1 << 10
	for _, c := range []struct {
		name   string
		bodies []int
		calls  []int // number of jobs per call
	}{
		{"more small ones than one call takes", slices.Repeat([]int{100}, MaxPop+1), []int{MaxPop, 1}},
		{"of 100 KiB", slices.Repeat([]int{100 * k}, 25), []int{10, 10, 5}},
		{"a large one first", []int{3000 * k, 10, 10}, []int{1, 2}},
		{"a large one behind others", []int{10, 10, 3000 * k, 10}, []int{2, 1, 1}},
		{"only large ones", []int{1000 * k, 1100 * k, 500 * k}, []int{1, 1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.seed(t)
			for n, size := range c.bodies {
				check(t, b.push(t.Context(), Job{ID: fmt.Sprintf("%03d", n), Topic: "t", Body: strings.Repeat("x", size)}, Due{}, kept, Replace))
			}
			next := 0
			for i, jobs := range c.calls {
				popped, err := b.Pop(Wanted{Topics: []string{"t"}, N: 2 * MaxPop}).Do(t.Context())
				if err != nil || len(popped.Jobs) != jobs || popped.More != (i < len(c.calls)-1 && jobs < MaxPop) {
					t.Fatalf("call %d: %d jobs, more: %v, error %v; want %d", i, len(popped.Jobs), popped.More, err, jobs)
				}
				for _, job := range popped.Jobs {
					if job.ID != fmt.Sprintf("%03d", next) || len(job.Body) != c.bodies[next] {
						t.Errorf("job %d is %s with %d bytes", next, job.ID, len(job.Body))
					}
					next++
				}
			}
			b.expect(t, redistest.State{})
		})
	}
}

// A pop skips stale entries in steps of many, whatever number of jobs is wanted.
func TestPopPassesOverStaleEntriesInSteps(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	b.seed(t, ghosts("t", 5000), ready("a", "t"))
	lines := b.monitor(t, func() {
		if job, stale, err := b.pop(t.Context(), []string{"t"}); err != nil || job.ID != "a" || len(stale) != 5000 {
			t.Errorf("popped %+v, %d stale, %v", job, len(stale), err)
		}
	})
	reads := 0
	for _, line := range lines {
		if strings.Contains(line, `"LRANGE"`) {
			reads++
		}
	}
	if reads > 5000/50+10 {
		t.Errorf("%d steps over 5,000 entries", reads)
	}
}

// If a pop finds the same ID twice in a queue, it returns one job.
func TestPopOfDuplicates(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, ready("a", "t"), entry("a", "t"), ready("b", "t"), entry("a", "t"), entry("b", "t"))
		popped, err := b.Pop(Wanted{Topics: []string{"t"}, N: 10}).Do(t.Context())
		if err != nil || !reflect.DeepEqual(popped.Jobs, []Job{{ID: "a", Topic: "t", Body: "body of a"}, {ID: "b", Topic: "t", Body: "body of b"}}) || len(popped.Stale) > 0 {
			t.Errorf("%+v, %v", popped, err)
		}
		b.expect(t, redistest.State{})
	})
}
