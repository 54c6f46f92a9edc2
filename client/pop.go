package client

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/wait"
)

// Pop takes the topic's next ready job, and fails with ErrEmpty when there is
// none. It is one atomic step; the job is gone from Redis then. Entries whose
// jobs are gone are passed over and counted (Counters). A Pop does not overtake
// those who wait in BPop for the same topic on the same Client.
//
// The end of ctx ends Pop at once, but not while Redis is asked: then Pop waits
// for the answer, as long as the connection's timeouts allow, and returns the job
// that it brings. When the connection breaks at that moment, the job may be lost, and
// the error says so (ErrLost).
func (c *Client) Pop(ctx context.Context, topic string) (Message, error) {
	got, err := c.takeFor(ctx, wait.Request{Topics: []string{topic}, N: 1})
	if err != nil {
		return Message{}, failed("pop", topic, err)
	}
	return Message(got.Jobs[0]), nil
}

// BPop is Pop, but waits for a job when there is none, and fails with
// ErrEmpty when the timeout is over; 0 means to wait as long as ctx allows. Of
// several topics, the first that has a job is served; with several partitions, the first that had one as of the last probe: see Fetch.
//
// Waiting takes nothing out of Redis: a cancelled BPop loses no job. All calls of
// a Client that wait share one connection (to each node of a cluster), whatever their topics, on which Redis
// wakes the Client that has waited longest for a job, and no other. A server of the original's wakes nobody, and a
// Redis user may lack the right to subscribe; then jobs are found by asking, once a second and
// every 50 ms.
//
// While Redis is away, or takes no writes, BPop keeps trying for 3 s before it returns the error. A
// timeout that is over before Redis could be asked is that error, and not ErrEmpty.
// A BPop that lost an answer and then got another job returns that job; only Counters shows the loss.
func (c *Client) BPop(ctx context.Context, timeout time.Duration, topic string, more ...string) (Message, error) {
	topics := append([]string{topic}, more...)
	var got wait.Jobs
	err := checkTimeout(timeout)
	if err == nil {
		got, err = c.takeFor(ctx, wait.Request{Topics: topics, N: 1, Waits: true, Timeout: timeout})
	}
	if err != nil {
		return Message{}, failed("bpop", strings.Join(topics, ", "), err)
	}
	return Message(got.Jobs[0]), nil
}

// takeFor takes jobs as the request says.
func (c *Client) takeFor(ctx context.Context, r wait.Request) (wait.Jobs, error) {
	if slices.Contains(r.Topics, "") {
		return wait.Jobs{}, checkTopic("")
	}
	if err := c.begin(ctx); err != nil {
		return wait.Jobs{}, err
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
