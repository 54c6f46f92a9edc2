// Package clienttest connects Clients and servers to the Redis of a test.
package clienttest

import (
	"cmp"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/server"
)

// Reach adds the address of the test's Redis to pool options.
func Reach(s *redistest.Server, o client.PoolOptions) client.PoolOptions {
	o.Addr, o.Partitions = cmp.Or(o.Addr, s.Addr), cmp.Or(o.Partitions, s.Partitions)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, redistest.HangBound)
	if s.Clustered {
		o.Addr, o.Cluster = "", []string{o.Addr}
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

// On returns a Client on the pool, with one partition.
func On(pool *redis.Pool, opts ...client.Option) *client.Client {
	return redistest.Must(client.New(client.UsePool(pool, 1), opts...))
}

// Server returns a server on the pool, with one partition. Without a logger it logs nothing.
func Server(pool *redis.Pool, o server.Options) *server.Server {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return redistest.Must(server.New(client.UsePool(pool, 1), o))
}

// Jobs returns the jobs whose keys begin with prefix; empty means "delayer:".
func Jobs(r *client.Redis, prefix string) *fleet.Fleet {
	return redistest.Must(fleet.Open((*fleet.Redis)(r), prefix))
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
