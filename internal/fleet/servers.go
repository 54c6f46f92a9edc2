package fleet

import (
	"context"

	"github.com/mix-basic/delayer/internal/store"
)

// Server is a Redis server that has partitions.
type Server struct {
	Addr  string       // of a node of a cluster; else empty
	Store *store.Store // a partition on it
}

// Servers returns the Redis servers: one or, in a cluster, each node with partitions. It fails if no node of the cluster responds.
func (f *Fleet) Servers(ctx context.Context) (all []Server, err error) {
	known := map[string]bool{}
	for _, s := range f.Stores {
		addr, err := s.Addr(ctx)
		if err != nil {
			return nil, err
		}
		if !known[addr] {
			known[addr], all = true, append(all, Server{addr, s})
		}
	}
	return all, nil
}
