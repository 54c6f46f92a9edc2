package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
)

// TestFetchNoWait has Fetch come back without a job, be it that there is none, or that its
// attempts are used up.
func TestFetchNoWait(t *testing.T) {
	eachFetch(t, func(t *testing.T, fetch fetch) {
		t.Parallel()
		f := start(t)
		ask := func(topics ...string) ([]*client.Delivery, error) {
			o := client.FetchOptions{Max: 2, Lease: time.Minute, MaxAttempts: 1, NoWait: true}
			for _, topic := range topics {
				o.Topics = append(o.Topics, client.FetchTopic{Topic: topic})
			}
			return fetch(f.Client, t.Context(), o)
		}
		for _, topics := range [][]string{{"a"}, {"a", "b"}} {
			if list, err := ask(topics...); !errors.Is(err, client.ErrEmpty) || len(list) > 0 {
				t.Errorf("%q: %v, %v: want ErrEmpty", topics, list, err)
			}
			_, err := f.Push(t.Context(), client.Message{ID: "job", Topic: topics[len(topics)-1], Body: "b"}, 0)
			check(t, err)
			list, err := ask(topics...)
			if err != nil || len(list) != 1 || list[0].ID != "job" {
				t.Fatalf("%q: %v, %v: want the job", topics, list, err)
			}
			check(t, f.Reschedule(t.Context(), "job", 0))
			if list, err := ask(topics...); !errors.Is(err, client.ErrEmpty) || len(list) > 0 {
				t.Errorf("%q, with a job without attempts: %v, %v: want ErrEmpty", topics, list, err)
			}
			if job, err := f.Get(t.Context(), "job"); err != nil || job.State != client.Dead {
				t.Errorf("%+v, %v: want a dead letter", job, err)
			}
		}
	})
}

// A Timeout that is over is ErrEmpty, unless Redis could not be asked; ctx's end is ctx's error.
func TestFetchTimeout(t *testing.T) {
	eachFetch(t, func(t *testing.T, fetch fetch) {
		t.Parallel()
		f := start(t)
		ask := func(c *client.Client, ctx context.Context, timeout time.Duration) error {
			list, err := fetch(c, ctx, client.FetchOptions{Topics: []client.FetchTopic{{Topic: "a"}, {Topic: "b"}}, Max: 2, Timeout: timeout})
			if len(list) > 0 {
				t.Errorf("fetched %v", list)
			}
			return err
		}
		expectEmptyInTime(t, func(timeout time.Duration) error { return ask(f.Client, t.Context(), timeout) })
		if err := ask(f.Client, deadline(t, 10*time.Millisecond), time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want DeadlineExceeded", err)
		}
		hasty := client.OpenPool(client.PoolOptions{Addr: f.redis.Addr, ReadTimeout: 100 * time.Millisecond})
		defer hasty.Close()
		f.redis.Hang()
		defer f.redis.Resume()
		if err := ask(hasty, t.Context(), 10*time.Millisecond); err == nil || errors.Is(err, client.ErrEmpty) {
			t.Errorf("while Redis hangs: %v", err)
		}
	})
}
