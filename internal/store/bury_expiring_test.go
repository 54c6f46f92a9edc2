package store

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// expiresIn seeds a ready job that was pushed with these fields, and whose bucket expires after that time.
func expiresIn(left time.Duration, id, topic string, fields ...any) []command {
	bucket := "delayer:job_bucket:" + id
	return append(ready(id, topic), command{"PEXPIRE", bucket, left.Milliseconds()}, append(command{"HSET", bucket, "topic", topic}, fields...))
}

// pushedTo seeds that clients of ours push to the topic.
func pushedTo(topic string) []command { return []command{{"ZADD", "delayer:pushed_topics", 0, topic}} }

// A job that is about to expire at the delivery end of its queue becomes a dead letter, unless it may be the original's and nothing of ours
// was done with its topic.
func TestSweepBuriesJobsThatExpire(t *testing.T) {
	const week, day = 7 * 24 * time.Hour, 24 * time.Hour
	kept := func(lifetime time.Duration) []any {
		return []any{"options", fmt.Sprintf("3 0 %d", lifetime.Milliseconds())}
	}
	ours := kept(week)
	for _, c := range []struct {
		name   string
		seed   [][]command
		buried []string
		reason string // of the last one
		left   []string
	}{
		{"in its last ten minutes", [][]command{expiresIn(9*time.Minute, "a", "t", ours...)}, []string{"a"}, "expired: nobody took it within 7d", nil},
		{"before", [][]command{expiresIn(11*time.Minute, "a", "t", ours...)}, nil, "", []string{"a"}},
		{"kept for a day", [][]command{expiresIn(9*time.Minute, "a", "t", kept(day)...)}, []string{"a"}, "expired: nobody took it within 1d", nil},
		{"in the last twentieth of a short lifetime", [][]command{expiresIn(58*time.Second, "a", "t", kept(20*time.Minute)...)}, []string{"a"}, "expired: nobody took it within 20m", nil},
		{"before the last twentieth", [][]command{expiresIn(70*time.Second, "a", "t", kept(20*time.Minute)...)}, nil, "", []string{"a"}},
		{"plain, of the original's topic", [][]command{expiresIn(time.Minute, "a", "t"), pushedTo("u")}, nil, "", []string{"a"}},
		{"plain, of our topic", [][]command{expiresIn(119*time.Second, "a", "t"), pushedTo("t")}, []string{"a"}, "expired: nobody took it", nil},
		{"plain, before", [][]command{expiresIn(3*time.Minute, "a", "t"), pushedTo("t")}, nil, "", []string{"a"}},
		{"plain, returned", [][]command{expiresIn(119*time.Second, "a", "t", "lease", "1 1 0 0")}, []string{"a"}, "expired: nobody took it", nil},
		{"plain, returned, before", [][]command{expiresIn(3*time.Minute, "a", "t", "lease", "1 1 0 0")}, nil, "", []string{"a"}},
		{"with options, of our topic", [][]command{expiresIn(70*time.Second, "a", "t", kept(20*time.Minute)...), pushedTo("t")}, nil, "", []string{"a"}},
		{"where it is unknown whose topic it is", [][]command{expiresIn(time.Minute, "a", "t"), text("pushed_topics")}, nil, "", []string{"a"}},
		{"behind one of the original's", [][]command{expiresIn(time.Minute, "a", "t"), expiresIn(time.Minute, "b", "t", ours...)}, nil, "", []string{"a", "b"}},
		{"without an end", [][]command{expiresIn(time.Minute, "a", "t", ours...), {{"PERSIST", "delayer:job_bucket:a"}}}, nil, "", []string{"a"}},
		{"behind ghosts, before a job that is kept", [][]command{ghosts("t", 2), expiresIn(time.Minute, "a", "t", ours...), expiresIn(time.Minute, "b", "t", ours...), expiresIn(week, "c", "t", ours...)},
			[]string{"a", "b"}, "expired: nobody took it within 7d", []string{"c"}},
		{"that waits again", [][]command{expiresIn(time.Minute, "a", "t", ours...), {{"ZADD", "delayer:job_pool", 3600 * second, "a"}}}, nil, "", nil},
		{"of a topic whose dead letters are broken", [][]command{expiresIn(time.Minute, "a", "t", ours...), text("dead_letters:t")}, nil, "", []string{"a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, b *backend) {
				b.seed(t, c.seed...)
				b.enterTopic(t, "t", 0)
				want := b.state(t)
				var buried []string
				for range 2 {
					swept, err := b.Sweep(t.Context(), Position{})
					check(t, err)
					for _, expired := range swept.Buried {
						buried = append(buried, expired.IDs.Strings()...)
					}
				}
				if !slices.Equal(buried, c.buried) {
					t.Errorf("buried are %q, want %q", buried, c.buried)
				}
				want.Ready = queues{"t": c.left}
				if len(c.left) == 0 {
					want.Ready = nil
				}
				for _, id := range c.buried {
					want.Letters[id] = want.Buckets[id]
					delete(want.Buckets, id)
					want.Dead["t"] = append(want.Dead["t"], id)
				}
				slices.Sort(want.Dead["t"])
				b.expect(t, want)
				for id, left := range b.With(t).Lifetimes() {
					if left < 0 && c.name != "without an end" {
						t.Errorf("%s does not expire any more", id)
					}
				}
				if n := len(c.buried); n > 0 {
					job, err := b.Get(t.Context(), c.buried[n-1])
					if err != nil || job.Reason != c.reason || job.TTL != -1 {
						t.Errorf("the letter is %+v, %v, want the reason %q and no end", job, err, c.reason)
					}
				}
			})
		})
	}
}

// A call buries a bounded number of jobs; further calls go on with the topic. Parked jobs of a paused topic expire, too.
func TestSweepBuriesInSteps(t *testing.T) {
	for _, queue := range []string{"ready_queue:t", "paused_queue:t"} {
		b, _ := onRedis(t)
		const jobs = 330
		b.do(t, "EVAL", `for i = 1, ARGV[1] do
			redis.call('HSET', 'delayer:job_bucket:' .. i, 'topic', 't', 'body', 'b', 'options', '3 0 604800000')
			redis.call('PEXPIRE', 'delayer:job_bucket:' .. i, 60000)
			redis.call('LPUSH', 'delayer:' .. ARGV[2], i)
		end`, 0, jobs, queue)
		if queue == "paused_queue:t" {
			check(t, errOf(b.Pause("t", time.Hour, "").Do(t.Context())))
		}
		b.enterTopic(t, "t", 0)
		most := 0
		for swept := (Swept{More: true}); swept.More; {
			var err error
			swept, err = b.Sweep(t.Context(), swept.Last)
			check(t, err)
			for _, expired := range swept.Buried {
				most = max(most, len(expired.IDs))
			}
		}
		if most < 20 || most > 26 {
			t.Errorf("%s: a call buries %d jobs, want about 25", queue, most)
		}
		if s := b.state(t); len(s.Letters) != jobs || len(s.Buckets)+len(s.Ready)+len(s.Paused) > 0 {
			t.Errorf("%s: %d letters, left are %d jobs", queue, len(s.Letters), len(s.Buckets))
		}
	}
}

// The follower of a job that expires takes its place, and a letter is requeued with a whole lifetime.
func TestFollowerAndRequeueOfExpired(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, expiresIn(time.Minute, "a", "t", "options", "+0 0 604800000", "lease", "+1 1 0 0", "next", "0 1 t", "next_body", "new"))
		b.enterTopic(t, "t", 0)
		check(t, errOf(b.Sweep(t.Context(), Position{})))
		b.expect(t, redistest.State{Ready: queues{"t": {"a"}}, Buckets: buckets{"a": "t new"}, Dead: queues{"t": {"a"}}, Letters: buckets{"a": "t body of a"}})

		check(t, errOf(b.remove(context.Background(), "a")))
		b.expectRequeued(t, "a")
	})
}

func (b *backend) expectRequeued(t *testing.T, id string) {
	t.Helper()
	errs, err := b.Requeue(t.Context(), []string{id}, DefaultLifetime)
	check(t, err)
	expectErrors(t, errs, nil)
	b.expect(t, redistest.State{Ready: queues{"t": {id}}, Buckets: buckets{id: "t body of " + id}})
	if left := b.With(t).Lifetimes()[id]; left < DefaultLifetime-time.Minute {
		t.Errorf("it is kept for %v", left)
	}
}
