package client

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/wait"
)

// Pop takes the topic's next ready job, or returns ErrEmpty if there is none. It is one atomic step, after which the job is gone from
// Redis. Entries whose jobs are gone are skipped and counted (Counters). Pop does not overtake calls of BPop that wait for the same
// topic on the same Client.
//
// ctx ends Pop at once unless a poll is in flight: then Pop waits for the reply, within the connection's timeouts, and returns the
// job in it. If the connection breaks at that moment, the job may be lost, and the error is ErrLost.
func (c *Client) Pop(ctx context.Context, topic string) (Message, error) {
	got, err := c.take(ctx, wait.Request{Topics: []string{topic}, N: 1}, nil)
	if err != nil {
		return Message{}, failed("pop", topic, err)
	}
	return Message(got.Jobs[0]), nil
}

// BPop is Pop, but waits for a job if there is none, and returns ErrEmpty after the timeout; 0 means to wait as
// long as ctx allows. Of several topics, the first that has a job is served; with several partitions, the first
// that had one at the last probe: see Fetch.
//
// Waiting takes nothing out of Redis, so a cancelled BPop loses no job. All waiting calls of a Client share one
// connection (to each node of a cluster), for any topics, on which Redis wakes only the Client that has waited
// longest. A server of the original wakes nobody, so its jobs are found by checks once a second; a Redis user may
// lack permission to subscribe, and then the Client polls every 50 ms.
//
// While Redis is away or accepts no writes, BPop keeps trying for 3 s before it returns the error. If the timeout
// ends before Redis has answered, it returns that error and not ErrEmpty. A BPop that lost a reply and then got
// another job returns that job; only Counters shows the loss.
func (c *Client) BPop(ctx context.Context, timeout time.Duration, topic string, more ...string) (Message, error) {
	topics := append([]string{topic}, more...)
	got, err := c.take(ctx, wait.Request{Topics: topics, N: 1, Waits: true, Timeout: timeout}, checkTimeout(timeout))
	if err != nil {
		return Message{}, failed("bpop", strings.Join(topics, ", "), err)
	}
	return Message(got.Jobs[0]), nil
}

// take takes jobs as the request says, unless an argument is wrong.
func (c *Client) take(ctx context.Context, r wait.Request, wrong error) (wait.Jobs, error) {
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
	if r.Timeout > 0 && r.Timeout < time.Millisecond {
		c.note("timeout", r.Timeout)
	}
	return c.dispatcher.Take(ctx, r)
}

func checkTopic(topic string) error {
	if topic == "" {
		return invalid("topic", "it is empty")
	}
	return nil
}
