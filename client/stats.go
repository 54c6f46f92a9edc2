package client

import (
	"context"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// Stats are numbers of jobs.
type Stats struct {
	// Waiting is how many jobs of all topics wait to fall due.
	Waiting int
	// Topics are the known topics, sorted by name: those of which something was pushed or moved. A topic without
	// jobs is forgotten about an hour after its last use.
	Topics []TopicStats
}

// TopicStats are the numbers of a topic. -1 means that this Redis user may not read the number, or that the key is
// broken.
type TopicStats struct {
	Topic string
	Ready int
	// Reserved is approximate: clients and servers of the original do not update it when they push or remove
	// reserved jobs, or move them when their leases end.
	Reserved int
	Dead     int
	// Limit is the topic's limit, and Throttled how many ready jobs it keeps from being reserved now.
	Limit     Limit
	Throttled int
	// Slots is how many of Limit.Concurrency are taken now.
	Slots int
	// ThrottledUntil is when, by Redis's clock, Limit.Rate allows the next throttled job; zero if it does now, or
	// if jobs wait for a slot. What Client.Throttle stops is in Paused.
	ThrottledUntil time.Time
	// Untagged is how many ready jobs lack Limit.Tag and are in other partitions than those that have it: no consumer
	// can reserve them. They do not count as Throttled. Set a Limit without a Tag, or push them again with IDs
	// that have it.
	Untagged int
}

// Stats counts the jobs. It costs Redis about a microsecond for each topic, a few for one with jobs, whatever the
// number of jobs. Each partition is asked only for topics that it knows.
func (c *Client) Stats(ctx context.Context) (stats Stats, err error) {
	err = c.call(ctx, "stats", "", nil, func() error {
		all, err := c.fleet.Stats(ctx)
		stats = Stats{all.Waiting, each(all.Topics, func(t store.TopicCounts) TopicStats {
			return TopicStats{t.Topic, t.Ready, t.Reserved, t.Dead, Limit(t.Limit), t.Throttled, t.Slots, t.ThrottledUntil, t.Untagged}
		})}
		return err
	})
	return stats, err
}
