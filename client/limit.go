package client

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/store"
)

// Limit limits a topic's jobs over all consumers that reserve: Reserve, Fetch, package worker, and /v1. Pop and
// BPop have no leases and ignore it. The zero Limit means no limit.
//
// With several partitions each has a share, and the shares add up to the limit. So a topic reaches it only if its
// jobs are spread evenly, as IDs made by the Client are. Each partition can begin at least one job at once: with a
// Burst below the number of partitions, as many as there are partitions. If all IDs of a topic have one tag, set Tag:
// the limit is then exact.
type Limit struct {
	// Concurrency is the most jobs of the topic reserved at a time; 0 means no limit. It must not be less than the
	// number of partitions, unless Tag is set.
	Concurrency int
	// Rate is how many of them may begin to be reserved per second, 1/86400 to 1,000,000; 0 means no limit. In t
	// seconds at most Rate × t + Burst begin.
	Rate float64
	// Burst is how many may begin at once after a pause, up to 1,000,000. 0 means a quarter of a second's worth, and one
	// more, which makes up for delays of consumers and of the network. With a smaller Burst somewhat fewer jobs begin
	// than Rate allows.
	Burst int
	// Tag is what all IDs of the topic have in their first braces: with tag a, {a}1 and {a}2. The whole limit then
	// belongs to their partition, and from other partitions nothing of the topic is reserved. It is useless with a
	// single partition.
	Tag string
}

// SetLimit sets the topic's limit from now on; the zero Limit removes it. The same limit again changes nothing, so each process may set it
// when it starts. Stats returns it. Jobs that are reserved already stay so, and do
// not count if the topic had no limit on Concurrency. Waiting consumers are woken if there is more room. All programs
// that reserve, and the servers, must know limits: older versions ignore them.
//
// With several partitions each gets its share in turn. After an error some may have the new share and others the
// old one; calling SetLimit again completes it.
func (c *Client) SetLimit(ctx context.Context, topic string, l Limit) error {
	return c.call(ctx, "set limit", topic, checkTopic(topic), func() error {
		if err := c.checkLimit(l); err != nil {
			return err
		}
		return c.fleet.SetLimit(ctx, topic, store.Limit(l))
	})
}

func (c *Client) checkLimit(l Limit) error {
	switch {
	case l.Concurrency < 0 || l.Concurrency > store.MaxConcurrency:
		return invalid("concurrency", fmt.Sprintf("%d is not from 1 to %d; 0 is any number", l.Concurrency, store.MaxConcurrency))
	case math.IsNaN(l.Rate) || l.Rate != 0 && (l.Rate < store.MinRate || l.Rate > store.MaxRate):
		return invalid("rate", fmt.Sprintf("%v a second is not from %s to %s; 0 is any number", l.Rate, duration.Rate(store.MinRate), duration.Rate(store.MaxRate)))
	case l.Burst < 0 || l.Burst > store.MaxConcurrency:
		return invalid("burst", fmt.Sprintf("%d is not from 1 to %d; 0 is a quarter of a second's worth", l.Burst, store.MaxConcurrency))
	case l.Burst > 0 && l.Rate == 0:
		return invalid("burst", "it is of use only with a rate")
	case l.Tag != "" && l.Concurrency == 0 && l.Rate == 0:
		return invalid("tag", "it is of use only with a concurrency or a rate")
	case strings.ContainsAny(l.Tag, "{}\n") || len(l.Tag) > store.MaxTag:
		return invalid("tag", fmt.Sprintf("%s has braces or is longer than %d bytes", store.Quote(l.Tag), store.MaxTag))
	}
	if err := c.fleet.CheckShares(store.Limit(l)); err != nil {
		return invalid("concurrency", err.Error())
	}
	return nil
}
