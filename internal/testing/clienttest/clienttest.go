// Package clienttest connects Clients to the Redis of a test.
package clienttest

import (
	"cmp"
	"errors"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// Reach adds the address of the test's Redis to pool options.
func Reach(s *redistest.Server, o client.PoolOptions) client.PoolOptions {
	o.Addr, o.Partitions = cmp.Or(o.Addr, s.Addr), cmp.Or(o.Partitions, s.Partitions)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, redistest.HangBound)
	if s.Clustered {
		o.Addr, o.Cluster = "", o.Addr
	}
	if redistest.External != "" {
		at, err := client.ParseURL(redistest.External)
		redistest.Check(s.TB, err)
		o.Addr, o.Cluster, o.Sentinels, o.SentinelMaster = at.Addr, at.Cluster, at.Sentinels, at.SentinelMaster
		o.Username, o.Password, o.SentinelUsername, o.SentinelPassword = at.Username, at.Password, at.SentinelUsername, at.SentinelPassword
		o.Database, o.TLS = at.Database, at.TLS
	}
	return o
}

// Connect is client.Connect for options that may have several partitions.
func Connect(o client.PoolOptions) client.Redis {
	o.Partitions = 0
	return redistest.Must(client.Connect(o))
}

// Ready are options that reserve up to max jobs of the topic that are ready now.
func Ready(topic string, max int, lease time.Duration) client.FetchOptions {
	return client.FetchOptions{Topics: []client.FetchTopic{{Topic: topic}}, Max: max, Lease: lease, NoWait: true}
}

// Popped are options that pop up to max jobs of the topic that are ready now.
func Popped(topic string, max int) client.FetchOptions {
	return client.FetchOptions{Topics: []client.FetchTopic{{Topic: topic}}, Max: max, Pop: true, NoWait: true}
}

// All takes all jobs that are ready now. A call of Fetch takes those of one partition, up to o.Max.
func All(tb testing.TB, c *client.Client, o client.FetchOptions) (all []*client.Delivery) {
	tb.Helper()
	for {
		list, err := c.Fetch(tb.Context(), o)
		if errors.Is(err, client.ErrEmpty) {
			return all
		}
		redistest.Check(tb, err)
		all = append(all, list...)
	}
}
