package client

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/wait"
)

// MaxLease is the longest lease.
const MaxLease = store.MaxLease

// Reserve is BPop, but the job stays in Redis: it is leased to the caller, and delivered again if the lease ends
// before the Delivery was settled, for example by Ack. So a consumer may crash without losing a job. A lease of 0
// means the producer's TTR, or else 30 s. Any other lease is at least 1 ms: a bare 60 is 60 ns in Go, and
// ErrInvalid.
//
// If the reply to a Reserve is lost, its job comes back when the lease ends, and this counts as an attempt.
//
// A job that has used up its attempts (MaxAttempts) becomes a dead letter instead of being delivered.
func (c *Client) Reserve(ctx context.Context, timeout, lease time.Duration, topic string, more ...string) (*Delivery, error) {
	topics := append([]string{topic}, more...)
	k, wrong := reservation(lease, 0)
	got, err := c.take(ctx, "reserve", wait.Request{Kind: k, Topics: topics, N: 1, Waits: true}, timeout, cmp.Or(checkTimeout(timeout), wrong))
	if err != nil {
		return nil, failed("reserve", strings.Join(topics, ", "), err)
	}
	return c.deliveries(got, FetchOptions{})[0], nil
}

// reservation returns the wait.Kind for a lease and a number of attempts.
func reservation(lease time.Duration, attempts int) (wait.Kind, error) {
	switch {
	case lease < 0 || lease > MaxLease:
		return wait.Kind{}, invalid("lease", fmt.Sprintf("%s is not from 0 to %s; 0 is as the producer says, or else 30 s", duration.Format(lease), duration.Bound(MaxLease)))
	case store.LacksUnit(lease):
		return wait.Kind{}, checkUnit("lease", lease)
	case attempts < 0 || attempts > math.MaxInt32:
		return wait.Kind{}, invalid("max attempts", fmt.Sprintf("%d is not from 0 to %d; 0 is any number", attempts, math.MaxInt32))
	}
	return wait.Kind{Reserves: true, Reservation: store.Reservation{Lease: lease, MaxAttempts: attempts}}, nil
}

// ReserveBatch reserves up to n of the topic's next ready jobs, 1 to 1,000, or returns ErrEmpty if there is none.
// Like PopBatch it asks for up to 250 jobs or about 1 MiB at a time, and returns the jobs that have arrived if the
// connection breaks, or ctx ends, after the first part. It also stops when a third of a lease is over, because
// large jobs take long on a slow network.
func (c *Client) ReserveBatch(ctx context.Context, topic string, n int, lease time.Duration) ([]*Delivery, error) {
	k, wrong := reservation(lease, 0)
	got, err := c.takeBatch(ctx, "reserve batch", k, topic, n, wrong)
	return c.deliveries(got, FetchOptions{}), err
}

// FetchOptions say what Fetch reserves.
type FetchOptions struct {
	// Topics are served in this order. With several partitions it holds within each: see Fetch.
	Topics []FetchTopic
	// Max is the most jobs to reserve, 1 to 250.
	Max int
	// Lease is as in Reserve.
	Lease time.Duration
	// MaxAttempts is how often a job is delivered if its producer did not set it; 0 means no limit.
	MaxAttempts int
	// NoWait makes Fetch return ErrEmpty if there is no job.
	NoWait bool
	// Timeout is how long Fetch waits before it returns ErrEmpty; 0 means as long as ctx allows. It counts as in BPop.
	Timeout time.Duration
}

// FetchTopic is a topic, and how its jobs are reserved.
type FetchTopic struct {
	Topic string
	// Max is the most jobs of this topic; 0 means FetchOptions.Max.
	Max int
	// Lease and MaxAttempts override those of FetchOptions unless they are 0. Adjacent topics with the same values
	// share one call; later ones are asked only if it brings nothing.
	Lease       time.Duration
	MaxAttempts int
}

// Fetch waits, unless NoWait is set, until there is a job of any of the topics, and reserves as many as there are
// and as are wanted, with one call. With several partitions one of them serves the call, so others may have more
// jobs; their turn comes next. Pools of workers are built on it: see package worker.
//
// With several partitions, the order of topics holds within each. A Client skips topics that it knows to be empty, because Redis tells
// it when they get a job. If that message is lost, a caller that always finds jobs of other topics polls them again within 20 s, or
// 2 s if no server of this project runs.
func (c *Client) Fetch(ctx context.Context, o FetchOptions) ([]*Delivery, error) {
	r, wrong := o.request()
	got, err := c.take(ctx, "fetch", r, o.Timeout, wrong)
	return c.deliveries(got, o), failed("fetch", "", err)
}

// attempts returns how often a job of the topic is delivered if its producer did not set it.
func (o *FetchOptions) attempts(topic string) int {
	for i := range o.Topics {
		if o.Topics[i].Topic == topic {
			return cmp.Or(o.Topics[i].MaxAttempts, o.MaxAttempts)
		}
	}
	return o.MaxAttempts
}

func (o FetchOptions) request() (wait.Request, error) {
	k, err := reservation(o.Lease, o.MaxAttempts)
	switch {
	case err != nil:
		return wait.Request{}, err
	case o.Max < 1 || o.Max > store.MaxPop:
		return wait.Request{}, invalid("max", fmt.Sprintf("%d is not from 1 to %d", o.Max, store.MaxPop))
	case len(o.Topics) == 0:
		return wait.Request{}, invalid("topics", "there are none")
	case o.Timeout < 0:
		return wait.Request{}, checkTimeout(o.Timeout)
	}
	n := len(o.Topics)
	r := wait.Request{
		Kind: k, N: o.Max, Waits: !o.NoWait,
		Topics: make([]string, 0, n), Limits: make([]int, 0, n), Kinds: make([]wait.Kind, 0, n),
	}
	seen := make(map[string]bool, n)
	for _, t := range o.Topics {
		if t.Max < 0 {
			return wait.Request{}, invalid("topic's max", fmt.Sprintf("%d is below 0", t.Max))
		}
		if seen[t.Topic] { // which limit would be its own?
			return wait.Request{}, invalid("topics", store.Quote(t.Topic)+" is there twice")
		}
		seen[t.Topic] = true
		own, err := reservation(cmp.Or(t.Lease, o.Lease), cmp.Or(t.MaxAttempts, o.MaxAttempts))
		if err != nil {
			return wait.Request{}, err
		}
		r.Topics, r.Limits, r.Kinds = append(r.Topics, t.Topic), append(r.Limits, cmp.Or(t.Max, o.Max)), append(r.Kinds, own)
	}
	return r, nil
}

// Pop takes the topic's next ready job, or returns ErrEmpty if there is none. It is one atomic step, after which the job is gone from
// Redis. Entries whose jobs are gone are skipped and counted (Counters). Pop overtakes none of the calls of BPop that wait for the
// same topic on the same Client, if these are fewer than 250.
//
// ctx ends Pop at once unless a poll is in flight: then Pop waits for the reply, within the connection's timeouts, and returns the
// job in it. If the connection breaks at that moment, the job may be lost, and the error is ErrLost.
func (c *Client) Pop(ctx context.Context, topic string) (Message, error) {
	got, err := c.take(ctx, "pop", wait.Request{Topics: []string{topic}, N: 1}, 0, nil)
	if err != nil {
		return Message{}, failed("pop", topic, err)
	}
	return Message(got.Jobs[0]), nil
}

// BPop is Pop, but waits for a job if there is none, and returns ErrEmpty after the timeout; 0 means to wait as
// long as ctx allows. As with BRPOP, the timeout counts from when Redis has said that there is no job: how long Redis
// may take to say so is bounded by ctx and the connection's timeouts, as in any call. Of several topics, the first that
// has a job is served; with several partitions this order holds within each.
//
// Waiting takes nothing out of Redis, so a cancelled BPop loses no job. All waiting calls of a Client share one
// connection (in a cluster for each partition), for any topics, on which Redis wakes only the Client that has waited
// longest. A server of the original wakes nobody, so its jobs are found by checks once a second; a Redis user may
// lack permission to subscribe, and then the Client polls every 50 ms.
//
// While Redis is away or accepts no writes, BPop keeps trying, for 3 s or until the timeout ends, and then returns the
// error instead of ErrEmpty. A BPop that lost a reply and then got
// another job returns that job; only Counters shows the loss.
func (c *Client) BPop(ctx context.Context, timeout time.Duration, topic string, more ...string) (Message, error) {
	topics := append([]string{topic}, more...)
	got, err := c.take(ctx, "bpop", wait.Request{Topics: topics, N: 1, Waits: true}, timeout, checkTimeout(timeout))
	if err != nil {
		return Message{}, failed("bpop", strings.Join(topics, ", "), err)
	}
	return Message(got.Jobs[0]), nil
}

// take takes jobs as the request says, unless an argument is wrong.
func (c *Client) take(ctx context.Context, operation string, r wait.Request, timeout time.Duration, wrong error) (got wait.Jobs, err error) {
	if c != nil && c.hooks.deliver != nil {
		var done func(wait.Jobs, error)
		ctx, done = c.delivering(ctx, operation, r.Topics...)
		defer func() { done(got, failed(operation, strings.Join(r.Topics, ", "), err)) }()
	}
	if wrong == nil && slices.Contains(r.Topics, "") {
		wrong = checkTopic("")
	}
	if wrong == nil {
		wrong = c.begin(ctx)
	}
	if wrong != nil {
		return wait.Jobs{}, wrong
	}
	defer c.running.Done()
	if timeout > 0 && timeout < time.Millisecond {
		c.note("timeout", timeout, "topics", r.Topics)
	}
	return c.takers.Take(ctx, r, timeout)
}

func checkTopic(topic string) error {
	if topic == "" {
		return invalid("topic", "it is empty")
	}
	return nil
}

// maxPopBatch only bounds the memory of one PopBatch.
const maxPopBatch = 1000

// PopBatch takes up to n of the topic's next ready jobs, 1 to 1,000, or returns ErrEmpty if there is none. It asks
// Redis for up to 250 jobs or about 1 MiB at a time, so at most that much is lost when a connection breaks
// (ErrLost, Counters). If that happens, or ctx ends, after the first part, it returns the jobs that have arrived,
// without an error.
//
// With several partitions (PoolOptions.Partitions) each call begins with another partition, and asks the following ones,
// one by one, for the rest of n, also if one does not answer.
func (c *Client) PopBatch(ctx context.Context, topic string, n int) ([]Message, error) {
	got, err := c.takeBatch(ctx, "pop batch", wait.Kind{}, topic, n, nil)
	return each(got.Jobs, func(job store.Job) Message { return Message(job) }), err
}

// takeBatch takes up to n jobs, in as many calls as needed, unless an argument is wrong.
func (c *Client) takeBatch(ctx context.Context, operation string, k wait.Kind, topic string, n int, wrong error) (got wait.Jobs, err error) {
	if c != nil && c.hooks.deliver != nil {
		var done func(wait.Jobs, error)
		ctx, done = c.delivering(ctx, operation, topic)
		defer func() { done(got, err) }()
	}
	if n < 1 || n > maxPopBatch {
		wrong = cmp.Or(wrong, invalid("n", fmt.Sprintf("%d is not from 1 to %d", n, maxPopBatch)))
	}
	err = c.call(ctx, operation, topic, cmp.Or(checkTopic(topic), wrong), func() (err error) {
		for _, partition := range c.inTurn() {
			if len(got.Jobs) < n {
				failed := partition.UntilServed(ctx, func() error { return c.takeMore(ctx, partition, k, topic, n, &got) })
				err = cmp.Or(err, failed)
			}
		}
		if len(got.Jobs) > 0 {
			return nil
		}
		return cmp.Or(err, ErrEmpty)
	})
	return got, err
}

// inTurn returns all partitions. Each call begins with another one, so that all are served equally.
func (c *Client) inTurn() []*store.Store {
	all := c.fleet.Stores
	if len(all) == 1 {
		return all
	}
	first := int(c.turn.Add(1) % uint64(len(all)))
	return slices.Concat(all[first:], all[:first])
}

// takeMore takes jobs until there are n, or no more, or the leases of the first ones get old.
func (c *Client) takeMore(ctx context.Context, partition *store.Store, k wait.Kind, topic string, n int, got *wait.Jobs) error {
	p, err := partition.Pipeline(ctx)
	if err != nil {
		return err
	}
	defer p.Close()
	for len(got.Jobs) < n && !growsOld(got) {
		if err := ctx.Err(); err != nil {
			return err
		}
		wanted := min(n-len(got.Jobs), store.MaxPop)
		next, more, err := c.takers.Pull(partition, p, k, topic, wanted)
		got.Add(next)
		if err != nil || len(next.Jobs) < wanted && !more {
			return err
		}
	}
	return nil
}

// growsOld reports whether a third of a lease is over. The rest is for the consumer.
func growsOld(got *wait.Jobs) bool {
	for _, l := range got.Leases {
		if time.Since(got.AskedAt) > l.Length/3 {
			return true
		}
	}
	return false
}
