package client

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/mix-basic/delayer/internal/store"
)

// Limit is what limits a topic's jobs, of all consumers that reserve: Reserve, Fetch, package worker, and /v1. Pop and BPop have no
// leases, and take no notice of it. The zero Limit is none.
//
// With several partitions each has its share, and the shares add up to the limit. So a topic reaches it only if its jobs are spread
// evenly, as IDs that a Client makes are. Each has a Burst of one at least: where Burst is less than there
// are partitions, as many as these begin at once. Where all IDs of a topic bear one tag, say so: then it is exact.
type Limit struct {
	// Concurrency is how many of the topic's jobs are reserved at a time; 0 is any number. It must not be less than there are
	// partitions, unless Tag is given.
	Concurrency int
	// Rate is how many of them begin to be reserved in a second, 1/86400 to 1,000,000; 0 is any number. In t seconds at most
	// Rate × (t + ¼) + Burst begin: what begins late is made up for within a quarter of a second.
	Rate float64
	// Burst is how many may begin at once when none did for a while; 0 is 1.
	Burst int
	// Tag is what stands in the first braces of all the topic's IDs: with the tag a, {a}1 and {a}2. The whole limit is that of their partition, and
	// from other partitions nothing of the topic is reserved. With a single partition it is of no use.
	Tag string
}

// SetLimit limits the topic's jobs from now on, in place of what limited them before; the zero Limit ends that. Jobs that
// are reserved already go on, and count. Those who wait are woken if there is more room. All programs that reserve must know of limits, and so must the
// servers: those of versions before don't keep to them.
//
// With several partitions one after the other is given its share. After an error some may have theirs, and others what was before; to call
// SetLimit again does the rest. While partitions grow those of before keep their shares until their jobs are migrated, so together
// a topic has up to twice its limit; one with a Tag stays exact, and its jobs in partitions of before wait until they are migrated.
func (c *Client) SetLimit(ctx context.Context, topic string, l Limit) error {
	return c.onTopic(ctx, "set limit", topic, func() error {
		if err := c.checkLimit(l); err != nil {
			return err
		}
		if l.Rate > 0 {
			l.Burst = max(l.Burst, 1)
		}
		return c.fleet.SetLimit(ctx, topic, store.Limit(l))
	})
}

// Limit is what limits the topic's jobs. It is also among the Stats.
func (c *Client) Limit(ctx context.Context, topic string) (l Limit, err error) {
	err = c.onTopic(ctx, "limit", topic, func() error {
		kept, err := c.fleet.Limit(ctx, topic)
		l = Limit(kept)
		return err
	})
	return l, err
}

// onTopic makes a call about the topic.
func (c *Client) onTopic(ctx context.Context, operation, topic string, call func() error) error {
	if err := checkTopic(topic); err != nil {
		return failed(operation, "", err)
	}
	if err := c.begin(ctx); err != nil {
		return failed(operation, topic, err)
	}
	defer c.running.Done()
	return failed(operation, topic, call())
}

func (c *Client) checkLimit(l Limit) error {
	switch {
	case l.Concurrency < 0 || l.Concurrency > store.MaxConcurrency:
		return invalid("concurrency", fmt.Sprintf("%d is not from 1 to %d; 0 is any number", l.Concurrency, store.MaxConcurrency))
	case math.IsNaN(l.Rate) || l.Rate != 0 && (l.Rate < store.MinRate || l.Rate > store.MaxRate):
		return invalid("rate", fmt.Sprintf("%v a second is not from one a day to %d; 0 is any number", l.Rate, store.MaxRate))
	case l.Burst < 0 || l.Burst > store.MaxConcurrency:
		return invalid("burst", fmt.Sprintf("%d is not from 1 to %d; 0 is 1", l.Burst, store.MaxConcurrency))
	case l.Burst > 0 && l.Rate == 0:
		return invalid("burst", "it is of use only with a rate")
	case l.Tag != "" && l.Concurrency == 0 && l.Rate == 0:
		return invalid("tag", "it is of use only with a concurrency or a rate")
	case strings.ContainsAny(l.Tag, "{}\n") || len(l.Tag) > store.MaxTag:
		return invalid("tag", fmt.Sprintf("%s has braces or is longer than %d bytes", store.Quote(l.Tag), store.MaxTag))
	}
	if n := c.fleet.Layout.Partitions; l.Tag == "" && l.Concurrency > 0 && l.Concurrency < n {
		return invalid("concurrency", fmt.Sprintf("%d is less than the %d partitions, each of which has its share: want %d or more, or a tag that all IDs of the topic bear", l.Concurrency, n, n))
	}
	return nil
}
