package client_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

var (
	wakeRuns = flag.Int("wake.runs", 0, "how many runs TestRandomWaiting makes, with and without cuts each: 3 if it is 0, or 1 in the short set")
	wakeJobs = flag.Int("wake.jobs", 300, "how many jobs each of them pushes")
)

// crowd is a set of random consumers, in several Clients, of a few topics.
type crowd struct {
	*fixture
	clients []*client.Client
	topics  []string
	cuts    bool
	pushed  sync.Map // time by ID
	got     sync.Map // consumer by ID
	count   atomic.Int64
	slowest atomic.Int64
	done    context.Context
}

// Callers wait in any way, in one partition or several, and some leave. Each job is delivered once, and none stays
// ready while a caller waits for it.
func TestRandomWaiting(t *testing.T) {
	for _, partitions := range []int{1, 4} {
		for _, cuts := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d partitions, cuts %v", partitions, cuts), func(t *testing.T) {
				t.Parallel()
				needs := []redistest.Need{alone}
				if partitions > 1 {
					needs = append(needs, redistest.InPartitions(partitions))
				}
				f := start(t, needs...)
				for range cmp.Or(*wakeRuns, rounds(3, 1)) {
					f.Flush()
					f.runCrowd(rand.Uint64(), cuts)
				}
			})
		}
	}
}

func (f *fixture) runCrowd(seed uint64, cuts bool) {
	r := rand.New(rand.NewPCG(seed, 0))
	done, end := context.WithCancel(f.TB.Context())
	c := &crowd{fixture: f, cuts: cuts, done: done, topics: []string{"a", "b", "c", "d"}[:1+r.IntN(4)]}
	for range 1 + r.IntN(4) {
		c.clients = append(c.clients, client.OpenPool(f.reach(client.PoolOptions{}), f.options()...))
	}
	var consumers sync.WaitGroup
	for range 1 + r.IntN(30) {
		one, own := c.clients[r.IntN(len(c.clients))], rand.New(rand.NewPCG(r.Uint64(), 0))
		consumers.Go(func() { c.consume(one, own) })
	}
	for _, one := range c.clients { // in each Client, one caller always waits for all topics
		consumers.Go(func() { c.stay(one) })
	}
	c.produce(r)
	if !c.delivered(*wakeJobs) {
		f.TB.Errorf("seed %d: %d of %d jobs were delivered; Redis has %+v", seed, c.count.Load(), *wakeJobs, f.State())
	}
	for i, one := range c.clients {
		if i%2 == 0 {
			one.Close() // ends waiting callers
		}
	}
	end()
	consumers.Wait()
	for _, one := range c.clients {
		one.Close()
	}
	f.TB.Logf("seed %d (cuts %v): %d clients, %d topics: the slowest %v", seed, cuts, len(c.clients), len(c.topics), time.Duration(c.slowest.Load()))
}

// produce pushes jobs at random times.
func (c *crowd) produce(r *rand.Rand) {
	p := c.open()
	for n := 0; n < *wakeJobs; {
		var batch []client.Delayed
		for range min(1+r.IntN(1+r.IntN(20)), *wakeJobs-n) {
			id := fmt.Sprint("j", n)
			body := "b"
			if r.IntN(100) == 0 {
				body = strings.Repeat("x", 1<<20)
			}
			batch = append(batch, client.Delayed{Message: client.Message{ID: id, Topic: c.topics[r.IntN(len(c.topics))], Body: body}})
			c.pushed.Store(id, time.Now())
			n++
		}
		if _, err := p.PushBatch(c.TB.Context(), batch); err != nil {
			c.TB.Error(err)
			return
		}
		if c.cuts && r.IntN(20) == 0 {
			c.Do("CLIENT", "KILL", "TYPE", "pubsub")
		}
		if r.IntN(3) > 0 && !c.delivered(n) { // otherwise the next job would wake the caller that this job failed to wake
			return
		}
	}
}

// delivered waits until this many jobs are delivered.
func (c *crowd) delivered(n int) bool {
	deadline := time.Now().Add(hangBound)
	for c.count.Load() < int64(n) {
		if c.TB.Failed() || time.Now().After(deadline) {
			return false
		}
		time.Sleep(time.Duration(rand.IntN(500)) * time.Microsecond)
	}
	return true
}

// stay waits for jobs of all topics until the end of the test.
func (c *crowd) stay(one *client.Client) {
	for c.done.Err() == nil {
		m, err := one.BPop(c.done, 0, c.topics[0], c.topics[1:]...)
		if c.ended(err) {
			return
		}
		if err == nil {
			c.take(m.ID)
		}
	}
}

// consume takes jobs in random ways.
func (c *crowd) consume(one *client.Client, r *rand.Rand) {
	for c.done.Err() == nil {
		ctx, cancel := c.done, context.CancelFunc(func() {})
		if r.IntN(3) == 0 {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(3000))*time.Microsecond)
		}
		topics := append([]string(nil), c.topics...)
		r.Shuffle(len(topics), func(i, k int) { topics[i], topics[k] = topics[k], topics[i] })
		topics = topics[:1+r.IntN(len(topics))]
		timeout := time.Duration(r.IntN(3)) * time.Duration(r.IntN(20)) * time.Millisecond
		ids, err := takeSomehow(ctx, one, r, timeout, topics)
		cancel()
		if c.ended(err) {
			return
		}
		for _, id := range ids {
			c.take(id)
		}
		if r.IntN(4) == 0 {
			time.Sleep(time.Duration(r.IntN(3000)) * time.Microsecond)
		}
	}
}

// takeSomehow takes jobs in a random way.
func takeSomehow(ctx context.Context, c *client.Client, r *rand.Rand, timeout time.Duration, topics []string) (ids []string, err error) {
	var list []*client.Delivery
	switch r.IntN(5) {
	case 0:
		m, err := c.Pop(ctx, topics[0])
		return one(m.ID), err
	case 1:
		m, err := c.BPop(ctx, timeout, topics[0], topics[1:]...)
		return one(m.ID), err
	case 2:
		list = make([]*client.Delivery, 1)
		list[0], err = c.Reserve(ctx, timeout, time.Duration(1+r.IntN(3))*time.Minute, topics[0], topics[1:]...)
		if err != nil {
			list = nil
		}
	case 3:
		list, err = c.Fetch(ctx, fetchSome(r, timeout, topics))
	case 4:
		var ms []client.Message
		ms, err = c.PopBatch(ctx, topics[0], 1+r.IntN(5))
		for _, m := range ms {
			ids = append(ids, m.ID)
		}
	}
	for _, d := range list {
		ids = append(ids, d.ID)
		if err := d.Ack(context.WithoutCancel(ctx)); err != nil && !errors.Is(err, client.ErrClosed) {
			return ids, fmt.Errorf("ack: %w", err)
		}
	}
	return ids, err
}

func one(id string) []string {
	if id == "" {
		return nil
	}
	return []string{id}
}

func fetchSome(r *rand.Rand, timeout time.Duration, topics []string) client.FetchOptions {
	o := client.FetchOptions{Max: 1 + r.IntN(5), NoWait: r.IntN(3) == 0, Timeout: timeout, Lease: time.Minute}
	if r.IntN(20) == 0 {
		o.Max = 250
	}
	for _, topic := range topics {
		t := client.FetchTopic{Topic: topic, Max: r.IntN(3)}
		if r.IntN(4) == 0 {
			t.Lease = 2 * time.Minute
		}
		o.Topics = append(o.Topics, t)
	}
	return o
}

// take records that a job was delivered.
func (c *crowd) take(id string) {
	if _, twice := c.got.LoadOrStore(id, true); twice {
		c.TB.Errorf("%s was delivered twice", id)
		return
	}
	c.count.Add(1)
	pushed, _ := c.pushed.Load(id)
	took := int64(time.Since(pushed.(time.Time)))
	for old := c.slowest.Load(); took > old && !c.slowest.CompareAndSwap(old, took); old = c.slowest.Load() {
	}
}

// ended reports whether the consumer must stop; an unexpected error fails the test.
func (c *crowd) ended(err error) bool {
	switch {
	case err == nil, errors.Is(err, client.ErrEmpty), errors.Is(err, context.DeadlineExceeded), c.cuts && errors.Is(err, io.EOF):
		return false
	case errors.Is(err, client.ErrClosed), errors.Is(err, context.Canceled):
		return true
	}
	c.TB.Error(err)
	return true
}
