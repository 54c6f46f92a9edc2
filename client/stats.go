package client

import (
	"context"
	"maps"
	"slices"

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
}

// Stats counts the jobs. It costs Redis some microseconds a topic, whatever the number of jobs.
func (c *Client) Stats(ctx context.Context) (Stats, error) {
	if err := c.begin(ctx); err != nil {
		return Stats{}, failed("stats", "", err)
	}
	defer c.running.Done()
	var s Stats
	byName := map[string]*TopicStats{}
	for _, partition := range c.partitions {
		topics, _, err := partition.store.KnownTopics(ctx, store.AllTopics, "")
		if err != nil {
			return Stats{}, failed("stats", "", err)
		}
		part, err := partition.store.Stats(ctx, topics, false)
		if err != nil {
			return Stats{}, failed("stats", "", err)
		}
		s.Waiting += part.Waiting
		for _, t := range part.Topics {
			sum := byName[t.Topic]
			if sum == nil {
				sum = &TopicStats{Topic: t.Topic}
				byName[t.Topic] = sum
			}
			sum.Ready, sum.Reserved, sum.Dead = plus(sum.Ready, t.Ready), plus(sum.Reserved, t.Reserved), plus(sum.Dead, t.Dead)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		s.Topics = append(s.Topics, *byName[name])
	}
	return s, nil
}

// plus adds counts; -1 is one that is not known.
func plus(a, b int) int {
	if a < 0 || b < 0 {
		return -1
	}
	return a + b
}
