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

var (
	lastTime  = time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC)
	firstTime = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
)

var getCases = []struct {
	name    string
	seed    [][]command
	job     Job
	waiting bool
	due     any // time.Time, or a time after the seed
	endless bool
	err     error
}{
	{name: "absent", err: ErrNotFound},
	{name: "waiting", seed: [][]command{waits("x", "t", 60*second)}, job: jobOf("x", "t"), waiting: true, due: 60 * second},
	{name: "due but not moved yet", seed: [][]command{waits("x", "t", -second)}, job: jobOf("x", "t"), waiting: true, due: -second},
	{name: "score never", seed: [][]command{waits("x", "t", "inf")}, job: jobOf("x", "t"), waiting: true, due: lastTime},
	{name: "score always", seed: [][]command{waits("x", "t", "-inf")}, job: jobOf("x", "t"), waiting: true, due: firstTime},
	{name: "ready", seed: [][]command{ready("x", "t")}, job: jobOf("x", "t")},
	{name: "without a limit", seed: [][]command{ready("x", "t"), {{"PERSIST", "delayer:job_bucket:x"}}}, job: jobOf("x", "t"), endless: true},
	{name: "without a body", seed: [][]command{{{"HSET", "delayer:job_bucket:x", "topic", "t"}, {"PEXPIRE", "delayer:job_bucket:x", kept.Milliseconds()}}}, job: Job{ID: "x", Topic: "t"}},
	{name: "without a topic", seed: [][]command{{{"HSET", "delayer:job_bucket:x", "body", "b"}}}, err: ErrNotFound},
	{name: "expired while it waited", seed: [][]command{{{"ZADD", "delayer:job_pool", 60 * second, "x"}}}, err: ErrNotFound},
	{name: "expired while it was ready", seed: [][]command{entry("x", "t")}, err: ErrNotFound},
}

func TestGet(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for _, c := range getCases {
			t.Run(c.name, func(t *testing.T) {
				b.seed(t, c.seed...)
				was, ttlBefore := b.state(t), b.With(t).Lifetimes()["x"]
				found, err := b.Get(t.Context(), "x")
				b.expect(t, was)
				if c.err != nil {
					if !errors.Is(err, c.err) {
						t.Errorf("error %v, want %v", err, c.err)
					}
					return
				}
				if err != nil || !reflect.DeepEqual(found.Job, c.job) || (found.State == "waiting") != c.waiting {
					t.Fatalf("found %+v, %v, want %+v, waiting %v", found, err, c.job, c.waiting)
				}
				switch want := c.due.(type) {
				case nil:
					if !found.Due.IsZero() {
						t.Errorf("due %v", found.Due)
					}
				case time.Time:
					if !found.Due.Round(100 * time.Microsecond).Equal(want.Round(100 * time.Microsecond)) {
						t.Errorf("due %v, want %v", found.Due, want)
					}
				case after:
					if got := found.Due.Sub(time.Unix(int64(b.base), 0)); got != time.Duration(want) {
						t.Errorf("due %v after the seed, want %v", got, time.Duration(want))
					}
				}
				switch ttlAfter := b.With(t).Lifetimes()["x"]; {
				case c.endless && found.TTL != -1:
					t.Errorf("TTL %v, want none", found.TTL)
				case found.TTL > ttlBefore || found.TTL < ttlAfter:
					t.Errorf("TTL %v, was %v and then %v", found.TTL, ttlBefore, ttlAfter)
				}
			})
		}
		for name, seed := range map[string][]command{"bucket": text("job_bucket:x"), "pool": append(content("x", "t"), text("job_pool")...)} {
			t.Run("wrong type of "+name, func(t *testing.T) {
				b.expectRefused(t, "WRONGTYPE ", func() error { return errOf(b.Get(t.Context(), "x")) }, seed)
			})
		}
	})
}

// A topic whose name is longer than all names that one script takes gets a script of its own.
func TestStatsOfLongTopics(t *testing.T) {
	b, _ := onRedis(t)
	long := strings.Repeat("a", statsBytes+1)
	b.seed(t, ready("1", long), ready("2", "t"), ready("3", "t"))
	ctx, cancel := context.WithTimeout(t.Context(), redistest.HangBound)
	defer cancel()
	stats, err := b.Stats(ctx, []string{long, "t", "empty", long + "b"}, false)
	if err != nil {
		t.Fatal(err)
	}
	var counts []int
	for _, topic := range stats.Topics {
		counts = append(counts, topic.Ready)
	}
	if want := []int{1, 2, 0, 0}; !slices.Equal(counts, want) {
		t.Errorf("ready jobs by topic: %v, want %v", counts, want)
	}
}

// A job whose body is shown costs as much as four entries, so a page with bodies takes no longer to read.
func TestBrowseOfManyJobs(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		var jobs [][]command
		for i := range 120 {
			jobs = append(jobs, ready(fmt.Sprintf("%03d", i), "t"))
		}
		b.seed(t, jobs...)
		for _, c := range []struct{ jobs, entries, preview, told int }{
			{200, 100, 0, 100}, {200, 100, 1, 25}, {200, 101, 256, 26}, {7, 100, 256, 7}, {200, 1, 256, 1}, {200, 1000, 256, 120},
		} {
			look, err := b.Browse(t.Context(), Browse{Topic: "t", State: "ready", Jobs: c.jobs, Entries: c.entries, Preview: c.preview})
			check(t, err)
			if len(look.Jobs) != c.told || look.Read != c.told {
				t.Errorf("%+v: %d jobs, %d entries", c, len(look.Jobs), look.Read)
			}
		}
		b.seed(t, ghosts("t", 100), ready("a", "t"))
		look, err := b.Browse(t.Context(), Browse{Topic: "t", State: "ready", Jobs: 10, Entries: 50, Preview: 256})
		if err != nil || look.Read != 50 || len(look.Jobs) != 0 || look.Last.At != "49" {
			t.Errorf("among ghosts: %+v, %v", look, err)
		}
	})
}

// Overdue is for how long the job that is most overdue has been due. Pools that can't be read count as empty.
func TestOverdue(t *testing.T) {
	f := redistest.Start(t)
	p := partitions(f.Pool(), 4)
	pool := func(i int) string { return p[i].Keys().JobPool() }
	f.Do("SET", pool(0), "text")
	f.Do("ZADD", pool(1), "+inf", "never")
	if late := Overdue(t.Context(), p); late != 0 {
		t.Errorf("nothing is due: %v", late)
	}
	f.Do("ZADD", pool(2), f.Clock()-100, "a", "+inf", "b")
	f.Do("ZADD", pool(3), f.Clock()-10, "")
	if late := Overdue(t.Context(), p); late < 100*time.Second || late > 100*time.Second+redistest.HangBound {
		t.Errorf("overdue for %v, want 100 s", late)
	}
	f.Do("ZADD", pool(3), "-inf", "ever")
	if late := Overdue(t.Context(), p); late < 50*365*24*time.Hour {
		t.Errorf("overdue for %v, want since 1970", late)
	}
}
