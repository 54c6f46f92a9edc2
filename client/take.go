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

// Reserve waits for a job like BPop, as long as ctx allows, but the job stays in Redis: it is leased to the caller,
// and delivered again if the lease ends before the Delivery was settled, for example by Ack. So a consumer may crash
// without losing a job. A lease of 0 means the producer's (JobOptions), or else 30 s. Any other lease is at least
// 1 ms: a bare 60 is 60 ns in Go, and ErrInvalid. Fetch has more options.
//
// If the reply to a Reserve is lost, its job comes back when the lease ends, and this counts as an attempt.
//
// A job that has used up its attempts (JobOptions.MaxAttempts, or else 25) becomes a dead letter instead of being delivered.
func (c *Client) Reserve(ctx context.Context, lease time.Duration, topics ...string) (*Delivery, error) {
	k, wrong := reservation(lease, 0)
	got, err := c.take(ctx, "reserve", wait.Request{Kind: k, Topics: slices.Clone(topics), N: 1, Waits: true}, 0, wrong)
	if err != nil {
		return nil, failed("reserve", strings.Join(topics, ", "), err)
	}
	return c.deliveries(got, FetchOptions{})[0], nil
}

// reservation returns the wait.Kind for a lease and a number of attempts.
func reservation(lease time.Duration, attempts int) (wait.Kind, error) {
	switch {
	case lease < 0 || lease > store.MaxLease:
		return wait.Kind{}, invalid("lease", fmt.Sprintf("%s is not from 0 to %s; 0 is as the producer says, or else 30 s", duration.Format(lease), duration.Bound(store.MaxLease)))
	case store.LacksUnit(lease):
		return wait.Kind{}, checkUnit("lease", lease)
	case attempts > math.MaxInt32:
		return wait.Kind{}, invalid("max attempts", fmt.Sprintf("%d is above %d; 0 is %d, a negative number is any number", attempts, math.MaxInt32, store.DefaultMaxAttempts))
	}
	return wait.Kind{Reserves: true, Reservation: store.Reservation{Lease: lease, MaxAttempts: limitOf(attempts)}}, nil
}

// FetchOptions say what Fetch takes.
type FetchOptions struct {
	// Topics are served in this order. With several partitions it holds within each: see Fetch.
	Topics []FetchTopic
	// Max is the most jobs to take, 1 to 250. 0 means 1.
	Max int
	// Pop takes the jobs out of Redis, as Client.Pop does. Then Lease and MaxAttempts have no meaning, and the
	// Deliveries have nothing but their Message.
	Pop bool
	// Lease is as in Reserve.
	Lease time.Duration
	// MaxAttempts is how often a job is delivered if its producer did not set it. 0 means 25, a negative number no limit.
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

// Fetch waits, unless NoWait is set, until there is a job of any of the topics, and takes as many as there are
// and as are wanted, but about 1 MiB at most, with one call. With several partitions one of them, a random one that has jobs, serves the call, so others may have
// more. Pools of workers are built on it: see package worker.
//
// With several partitions, the order of topics holds within each. A Client skips topics that it knows to be empty, because Redis tells
// it when they get a job. If that message is lost, a check finds the jobs within 10 s, or 1 s if no server of this project runs and the
// topics are few.
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

func (o *FetchOptions) kind(lease time.Duration, attempts int) (wait.Kind, error) {
	if o.Pop {
		if lease != 0 || attempts != 0 {
			return wait.Kind{}, invalid("pop", "it does not go together with a lease or attempts: a popped job has neither")
		}
		return wait.Kind{}, nil
	}
	return reservation(lease, attempts)
}

func (o FetchOptions) request() (wait.Request, error) {
	k, err := o.kind(o.Lease, o.MaxAttempts)
	switch o.Max = cmp.Or(o.Max, 1); {
	case err != nil:
		return wait.Request{}, err
	case o.Max < 1 || o.Max > store.MaxPop:
		return wait.Request{}, invalid("max", fmt.Sprintf("%d is not from 1 to %d", o.Max, store.MaxPop))
	case checkTimeout(o.Timeout) != nil:
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
		own, err := o.kind(cmp.Or(t.Lease, o.Lease), cmp.Or(t.MaxAttempts, o.MaxAttempts))
		if err != nil {
			return wait.Request{}, err
		}
		r.Topics, r.Limits, r.Kinds = append(r.Topics, t.Topic), append(r.Limits, cmp.Or(t.Max, o.Max)), append(r.Kinds, own)
	}
	return r, nil
}

// Pop takes the topic's next ready job, or returns ErrEmpty if there is none. It is one atomic step, after which the job is gone from
// Redis. Entries whose jobs are gone are skipped (Hooks.Stale). Pop overtakes none of the calls of BPop that wait for the
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
// While Redis is unreachable or accepts no writes, BPop keeps trying, for 3 s or until the timeout ends, and then returns the
// error instead of ErrEmpty. A BPop that lost a reply and then got
// another job returns that job; only Hooks.Lost reports the loss.
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
	switch {
	case wrong != nil:
	case len(r.Topics) == 0:
		wrong = invalid("topics", "there are none")
	case slices.Contains(r.Topics, ""):
		wrong = checkTopic("")
	}
	if wrong == nil {
		wrong = c.begin(ctx)
	}
	if wrong != nil {
		return wait.Jobs{}, wrong
	}
	defer c.running.Done()
	return c.takers.Take(ctx, r, timeout)
}

func checkTopic(topic string) error {
	if topic == "" {
		return invalid("topic", "it is empty")
	}
	return nil
}
