package client_test

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
)

// The first four of sixteen partitions share their keys with the next layout's four partitions. A program that still
// uses sixteen reserves jobs there that belong elsewhere, and settles them where they are.
func TestSettleInSharedPartition(t *testing.T) {
	t.Parallel()
	f := start(t)
	id := "a"
	for store.PartitionOf(id, 16) < 4 {
		id += "a"
	}
	for what, settle := range map[string]func(old *client.Client, d *client.Delivery) error{
		"ack":   func(_ *client.Client, d *client.Delivery) error { return d.Ack(t.Context()) },
		"retry": func(_ *client.Client, d *client.Delivery) error { return d.Retry(t.Context(), time.Hour) },
		"bury":  func(_ *client.Client, d *client.Delivery) error { return d.Bury(t.Context(), "why") },
		"extend": func(_ *client.Client, d *client.Delivery) error {
			return d.Extend(t.Context(), time.Hour)
		},
		"ack batch": func(old *client.Client, d *client.Delivery) error {
			return errOf(old.AckBatch(t.Context(), []*client.Delivery{d}))
		},
		"extend batch": func(old *client.Client, d *client.Delivery) error {
			return errOf(old.ExtendBatch(t.Context(), []*client.Delivery{d}, 0))
		},
	} {
		f.Flush()
		old := f.open(client.WithPartitions(16))
		check(t, errOf(old.Stats(t.Context())))
		now := f.open(client.WithPartitions(4), client.WithPreviousPartitions(16))
		check(t, errOf(now.Push(t.Context(), client.Message{ID: id, Topic: "t", Body: "b"}, 0)))
		list, err := old.ReserveBatch(t.Context(), "t", 1, time.Minute)
		check(t, err)
		if err := settle(old, list[0]); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A push of many IDs checks the old partition for about 250 at a time.
func TestPushChecksOldPartitionsTogether(t *testing.T) {
	t.Parallel()
	f := start(t, alone, oldLayout)
	c := f.open(client.WithPartitions(2), client.WithPreviousPartitions(1))
	batch := make([]client.Delayed, 1000)
	for i := range batch {
		batch[i].Message = client.Message{ID: fmt.Sprint(i), Topic: "t", Body: "b"}
	}
	check(t, errOf(c.PushBatch(t.Context(), batch))) // loads the scripts
	was := f.Calls("evalsha", "eval")
	check(t, errOf(c.PushBatch(t.Context(), batch)))
	if calls := f.Calls("evalsha", "eval") - was; calls > 4+3*2 {
		t.Errorf("1,000 jobs take %d calls, want 4 of the partition before and 3 of each of now at most", calls)
	}
}

// Get ends no lease, even if a program that knows only the old partition has pushed and reserved the job.
func TestGetLeavesLeases(t *testing.T) {
	t.Parallel()
	f := start(t, oldLayout)
	for n := 1; ; n++ {
		f.Flush()
		writes, counts := 0, false
		var held *client.Delivery
		pool := f.Fixture.Pool(redis.DialNetDial(func(network, addr string) (net.Conn, error) {
			conn, err := net.Dial(network, addr)
			return &ending{conn, func() {
				if counts {
					writes++
				}
				if counts && writes == n {
					counts = false
					f.push("a", "t")
					held = f.reserve("t")
				}
			}}, err
		}))
		c := client.New(pool, client.WithPartitions(2), client.WithPreviousPartitions(1))
		expectErr(t, "get", errOf(c.Get(t.Context(), "a")), client.ErrNotFound) // loads the scripts
		counts = true
		_, err := c.Get(t.Context(), "a")
		check(t, c.Close())
		if counts {
			break
		}
		if err != nil && !errors.Is(err, client.ErrNotFound) {
			t.Error(err)
		}
		if err := held.Ack(t.Context()); err != nil {
			t.Errorf("reserved before command %d: %v", n, err)
		}
	}
}
