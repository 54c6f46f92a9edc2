package worker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// testClient returns a Client on a private Redis with ready jobs of topic t.
func testClient(t *testing.T, ids ...string) *client.Client {
	t.Helper()
	r := redistest.Open(t, redistest.Undivided)
	c := redistest.Must(client.OpenPool(clienttest.Reach(r, client.PoolOptions{}), client.WithPrefix(r.Prefix)))
	t.Cleanup(func() { c.Close() })
	for _, id := range ids {
		if _, err := c.Push(t.Context(), client.Message{ID: id, Topic: "t", Body: "b"}, 0); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// A lease that ends before it could be extended is lost, and other leases are not.
func TestShortLeaseHarmsNoOther(t *testing.T) {
	t.Parallel()
	c := testClient(t, "short", "long")
	reserve := func(lease time.Duration) *client.Delivery {
		d, err := c.Reserve(t.Context(), lease, "t")
		redistest.Check(t, err)
		return d
	}
	short, long := reserve(time.Millisecond), reserve(time.Hour)
	redistest.Until(t, "the short lease has ended", func() bool { return time.Now().After(short.Deadline()) })
	ends := long.Deadline()

	r := newTestRun(Options{}, TopicOptions{})
	r.client = c
	defer r.open(t.Context())()
	begin := func(d *client.Delivery) *task {
		k := newTask(r, r.served[0], d)
		k.renewAt = time.Now()
		r.tasks[k] = true
		return k
	}
	r.mu.Lock()
	lost, held := begin(short), begin(long)
	r.mu.Unlock()
	signal(r.sooner)
	redistest.Until(t, "the long lease is extended", func() bool { return long.Deadline().After(ends) })
	redistest.Until(t, "the short one is lost", func() bool { return context.Cause(lost.ctx) == client.ErrLeaseLost })
	if held.ctx.Err() != nil {
		t.Errorf("the other handler's context has ended: %v", context.Cause(held.ctx))
	}
}

// A change after the end of a fetch is left to the next fetch.
func TestChangeBehindAFetch(t *testing.T) {
	t.Parallel()
	r := newTestRun(Options{}, TopicOptions{}, TopicOptions{})
	r.client = testClient(t)
	o := client.FetchOptions{Topics: []client.FetchTopic{{Topic: "t"}}, Max: 1, NoWait: true}
	for range 2000 {
		r.fetch(t.Context(), o, 0)
		signal(r.changed)
		time.Sleep(time.Microsecond) // by now a leftover waiter would have consumed it
		select {
		case <-r.changed:
		default:
			t.Fatal("a fetch that is over has taken it")
		}
	}
}

// A result is retried until it is stored, but not beyond the end of the lease, because the job then belongs to another
// consumer.
func TestReportEndsWithTheLease(t *testing.T) {
	t.Parallel()
	c := testClient(t, "a", "b")
	for _, q := range []struct {
		lease    time.Duration
		failures int
		want     bool
	}{{time.Hour, 2, true}, {200 * time.Millisecond, 1 << 20, false}} {
		d, err := c.Reserve(t.Context(), q.lease, "t")
		redistest.Check(t, err)
		var log bytes.Buffer
		r := newTestRun(Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, TopicOptions{})
		r.client = c
		end := r.open(t.Context())
		k := newTask(r, r.served[0], d)
		calls, told := 0, make(chan bool)
		go func() {
			told <- k.report(k.reporting, "acknowledge", func(context.Context) error {
				if calls++; calls <= q.failures {
					return errors.New("connection refused")
				}
				return nil
			})
		}()
		select {
		case ok := <-told:
			if given := strings.Contains(log.String(), "can't acknowledge the job"); ok != q.want || given == ok {
				t.Errorf("lease %v: %v after %d calls; the log is %q", q.lease, ok, calls, log.String())
			}
		case <-time.After(redistest.HangBound):
			t.Errorf("lease %v: it is still tried", q.lease)
		}
		end()
	}
}

// If no slot is free for a broken topic, the worker fetches nothing and retries the topic later.
func TestBrokenTopicWithoutAPlace(t *testing.T) {
	t.Parallel()
	c := testClient(t, "a")
	for name, taken := range map[string]struct{ running, ofTopic int }{
		"all slots of the worker": {2, 0},
		"all slots of the topic":  {1, 1},
	} {
		r := newRun(c, []topic{{name: "t", options: TopicOptions{Concurrency: 1}}}, Options{Concurrency: 2}.withDefaults())
		end := r.open(t.Context())
		r.running, r.served[0].active = taken.running, taken.ofTopic
		now := time.Now()
		r.served[0].brokenUntil = now
		r.tryBroken(t.Context(), now)
		if !r.served[0].brokenUntil.After(now) {
			t.Errorf("%s taken: it is tried again at once", name)
		}
		if len(r.tasks) > 0 {
			t.Fatalf("%s taken: a job is fetched", name)
		}
		end()
	}
}
