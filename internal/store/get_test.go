package store

import (
	"errors"
	"reflect"
	"testing"
	"time"
)

func jobX(topic, body string) Job { return Job{ID: "x", Topic: topic, Body: body} }

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
	{name: "waiting", seed: [][]command{waits("x", "t", 60*second)}, job: jobX("t", "body of x"), waiting: true, due: 60 * second},
	{name: "due but not moved yet", seed: [][]command{waits("x", "t", -second)}, job: jobX("t", "body of x"), waiting: true, due: -second},
	{name: "score never", seed: [][]command{waits("x", "t", "inf")}, job: jobX("t", "body of x"), waiting: true, due: lastTime},
	{name: "score always", seed: [][]command{waits("x", "t", "-inf")}, job: jobX("t", "body of x"), waiting: true, due: firstTime},
	{name: "ready", seed: [][]command{ready("x", "t")}, job: jobX("t", "body of x")},
	{name: "without a limit", seed: [][]command{ready("x", "t"), {{"PERSIST", "delayer:job_bucket:x"}}}, job: jobX("t", "body of x"), endless: true},
	{name: "without a body", seed: [][]command{{{"HSET", "delayer:job_bucket:x", "topic", "t"}, {"PEXPIRE", "delayer:job_bucket:x", kept.Milliseconds()}}}, job: jobX("t", "")},
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
