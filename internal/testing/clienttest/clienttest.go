// Package clienttest connects Clients to the Redis of a test.
package clienttest

import (
	"cmp"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
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

// Connect is client.Connect for options that may have several partitions.
func Connect(o client.PoolOptions) client.Redis {
	o.Partitions = 0
	return redistest.Must(client.Connect(o))
}
