package store

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// lengths returns the lengths of the topics' queues, as polled.
func (b *backend) lengths(t *testing.T, topics []string) ([]int, error) {
	t.Helper()
	looked, err := b.poll(t, Check{Topics: topics})
	return looked.Lengths, err
}

// A poll reads many queues in scripts of bounded size, and changes nothing. TestPollRegisters has the lengths.
func TestReady(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t)
	b.seed(t, ready("a", "topic1"))
	before := b.state(t)
	for _, line := range b.monitor(t, func() { check(t, errOf(b.lengths(t, manyTopics(2*maxChecked+1)))) }) {
		if n := strings.Count(line, "ready_queue:"); n > maxChecked {
			t.Errorf("one command looks at %d queues", n)
		}
	}
	b.expect(t, before)
}

// A queue that can't be read counts as one job, so that a pop returns its error. The other queues of the poll are counted.
func TestReadyOfABrokenQueue(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, text("ready_queue:broken"), entry("a", "t"), entry("b", "t"))
		got, err := b.lengths(t, []string{"broken", "t", "empty"})
		if err != nil || !slices.Equal(got, []int{1, 2, 0}) {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

// tried makes a call. If it succeeds, all leases must be lost.
func tried[T any](t *testing.T, c *Call[T]) error {
	answer, err := c.Do(t.Context())
	if errs, settles := any(answer).([]error); settles && err == nil {
		expectErrors(t, errs, ErrLeaseLost)
	}
	return err
}

// A server that takes no writes reports neither an empty queue nor a lost lease, as its data may be stale, and registers no waiter.
func TestEmptyQueueOfAReplica(t *testing.T) {
	t.Parallel()
	b, server := onRedis(t, alone)
	gone, me := LeaseRef{"t", "gone", 1}, Registration{Waiter: "me"}
	ask := map[string]func() error{
		"Pop": func() error { return tried(t, b.Pop(Wanted{Topics: []string{"t", "u"}, N: 1, Registration: me})) },
		"Reserve": func() error {
			return tried(t, b.Reserve(Wanted{Topics: []string{"t"}, N: 1, Registration: me}, Reservation{}))
		},
		"Poll": func() error {
			return errOf(b.poll(t, Check{Topics: []string{"t"}, Waiter: me.Waiter, Since: []time.Duration{0}}))
		},
		// Whether a lease is lost is unknown there, too.
		"Ack":   func() error { return tried(t, b.Ack([]LeaseRef{gone})) },
		"Retry": func() error { return tried(t, b.Retry([]Returned{{LeaseRef: gone}})) },
		"Bury":  func() error { return tried(t, b.Bury([]Burial{{LeaseRef: gone}})) },
		"Extend": func() error {
			return tried(t, b.Extend([]*Extension{{LeaseRef: gone, Lease: time.Minute}}))
		},
	}
	for _, state := range []struct {
		reason string
		seed   []command
		change []any
	}{
		{"", nil, []any{"REPLICAOF", "NO", "ONE"}},
		{"READONLY", nil, []any{"REPLICAOF", "127.0.0.1", 1}},
		{"READONLY", text("ready_queue:t"), []any{"REPLICAOF", "127.0.0.1", 1}},
		{"MASTERDOWN", nil, []any{"CONFIG", "SET", "replica-serve-stale-data", "no"}},
		{"NOREPLICAS", nil, []any{"CONFIG", "SET", "min-replicas-to-write", 1}},
	} {
		b.do(t, "REPLICAOF", "NO", "ONE")
		b.seed(t, state.seed)
		if state.reason == "MASTERDOWN" {
			b.do(t, "REPLICAOF", "127.0.0.1", 1)
		}
		b.do(t, state.change[0].(string), state.change[1:]...)
		for name, call := range ask {
			err := call()
			if state.reason == "" && err != nil || state.reason != "" && !begins(err, state.reason) {
				t.Errorf("%s: %v, want %q", name, err, state.reason)
			}
		}
	}
	server.Do("CONFIG", "SET", "min-replicas-to-write", 0)
	b.expect(t, redistest.State{})
}
