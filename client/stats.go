package client

import (
	"context"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// Stats are how many jobs there are.
type Stats struct {
	// Waiting is how many wait to fall due, of all topics together.
	Waiting int
	// Topics are those that are known, by name: something of theirs was pushed or moved. A topic that has
	// nothing any more is forgotten about an hour after its last use.
	Topics []TopicStats
}

// TopicStats are how many jobs a topic has. -1 is a number that this Redis user may not read, or
// that can't be told as the key is broken.
type TopicStats struct {
	Topic string
	Ready int
	// Reserved is about how many are reserved: clients and servers of the original don't
	// keep this number when they push or remove reserved jobs, or move them when their leases end.
	Reserved int
	Dead     int
	// Limit is what limits the topic's jobs, and Throttled is how many of the ready ones it keeps from being reserved now.
	Limit     Limit
	Throttled int
	// Slots is how many of Limit.Concurrency are taken now.
	Slots int
	// ThrottledUntil is when, by Redis's clock, Limit.Rate lets the next of Throttled begin; zero if it does now, or a slot is what they need.
	ThrottledUntil time.Time
	// Untagged is how many of the ready jobs don't have Limit.Tag and are in other partitions than those that do: nobody can reserve them.
	// Throttled leaves them out. Set a Limit without a Tag, or push them again with IDs that have it.
	Untagged int
}

// Stats counts the jobs. It costs Redis about a microsecond a topic, some for one that has anything, whatever the number of jobs. Each of several
// partitions is asked for those topics only that it knows.
func (c *Client) Stats(ctx context.Context) (Stats, error) {
	if err := c.begin(ctx); err != nil {
		return Stats{}, failed("stats", "", err)
	}
	defer c.running.Done()
	all, err := c.fleet.Stats(ctx)
	if err != nil {
		return Stats{}, failed("stats", "", err)
	}
	of := each(all.Topics, func(t store.TopicCounts) TopicStats {
		return TopicStats{t.Topic, t.Ready, t.Reserved, t.Dead, Limit(t.Limit), t.Held, t.Slots, t.HeldUntil, t.Untagged}
	})
	return Stats{all.Waiting, of}, nil
}
